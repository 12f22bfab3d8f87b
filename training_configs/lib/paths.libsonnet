// The files that come with the project, from wherever a config is used.
local lib = std.thisFile[:std.length(std.thisFile) - std.length('paths.libsonnet')];
{
  fixture(name):: lib + '../../fixtures/' + name,
  pretrained(name):: lib + '../../pretrained/' + name,
}
