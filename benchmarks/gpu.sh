#!/usr/bin/env bash
# Everything that needs a GPU, in two runs of at most 6 minutes each, without a network:
#
#   benchmarks/gpu.sh OUT                                        the encoder and coreference
#   benchmarks/gpu.sh OUT --parts "tests ner srl squad snli sst"  the rest
#   benchmarks/gpu.sh OUT [--parts "NAME ..."] [--data DATA] [--sentences FILE] [--text TEXT]
#                    [--wheels WHEELS] [--seconds N]
#   benchmarks/gpu.sh OUT --dry          all of it on a CPU, as small as it can be
#
# DATA holds the corpora as the fixtures do, a folder a task, by default these; FILE the sentences that the encoder
# reads, one a line, by default the fixtures'. TEXT is the folder of `python -m benchmarks english-text` with the file
# mixed.txt.gz of `english-mix`; without it the English biLM is not trained. WHEELS is a folder of wheels to install
# first. Each part writes its log and its CSV files to OUT, and a part that fails does not end the others. No part
# starts when the N seconds are over, by default 360:
#
#   encoder      elmo-speed with --cuda: all precisions, batches and single sentences
#   coref ...    an epoch of a task compared with AllenNLP; the others are ner, srl, squad, snli and sst
#   tests        all tests marked `cuda`
#   bilm         training of the English biLM from its weights with the time that is left; its weights are exported
#                to OUT/english
set -uo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,23s/^# \{0,1\}//p' "$0"; exit 2; }
[ $# -ge 1 ] || usage
out=$1; shift
parts= data=fixtures sentences=fixtures/elmo/sentences.txt text= wheels= seconds=360 dry=
while [ $# -gt 0 ]; do
  case $1 in
    --parts) parts=$2; shift 2 ;;
    --data) data=$2; shift 2 ;;
    --sentences) sentences=$2; shift 2 ;;
    --text) text=$2; shift 2 ;;
    --wheels) wheels=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --dry) dry=1; shift ;;
    *) usage ;;
  esac
done
mkdir -p "$out"
began=$SECONDS
left() { echo $((seconds - (SECONDS - began))); }
wanted() { case " $parts " in *" $1 "*) ;; *) return 1 ;; esac; }

if [ -n "$wheels" ]; then
  python3 -m pip install -q --no-index --no-deps --target "$out/site" "$wheels"/*.whl || exit 1
  # As the installed package does at the start of Python
  echo 'import sys, _elmo_tasks_imports; sys.meta_path.insert(0, _elmo_tasks_imports.ElmoTasksFinder)' >"$out/site/sitecustomize.py"
  export PYTHONPATH="$out/site:$PWD/elmo_tasks/compat/placeholders${PYTHONPATH:+:$PYTHONPATH}"
fi
if [ -n "${PYTHON:-}" ]; then python=$PYTHON
elif [ -x .venv/bin/python ]; then python=.venv/bin/python
else python=python3; fi

failed=
part() { # NAME LIMIT COMMAND...: its output goes to OUT/NAME.log
  local name=$1 limit=$2; shift 2
  if [ "$(left)" -lt "$limit" ]; then limit=$(left); fi
  if [ "$limit" -lt 1 ]; then echo "$name: no time left"; failed="$failed $name"; return; fi
  if timeout "$limit" "$@" >"$out/$name.log" 2>&1; then echo "$name: done, $((SECONDS - began)) s"
  else echo "$name: failed with $?, see $out/$name.log"; failed="$failed $name"; fi
}

if [ -n "$dry" ]; then
  encoder=(-n 3 --singles 1 --rounds 1 --sizes tiny --threads 1 --precision)
  timed=(--timed 3 3 --timed-epochs 2 --size tiny)
  small='{"model.hidden_sizes": [4, 4], "model.text_field_embedder.token_embedders.tokens.embedding_dim": 5}'
  overrides=(--overrides "$small")
  : "${parts:=encoder tests ner}"
else
  "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available() and "PyTorch finds no GPU; --dry runs on a CPU")' || exit 1
  encoder=(-n 320 --singles 30 --rounds 3 --budget 8 --sizes small original --precision bfloat16 --cuda)
  timed=(--timed-epochs 3 --size small)
  overrides=(--overrides '{"trainer.cuda_device": 0}' --peer-overrides '{"trainer.cuda_device": 0}')
  : "${parts:=encoder coref}"
fi

wanted encoder &&
  part encoder 180 "$python" -m benchmarks elmo-speed "$sentences" "${encoder[@]}" --csv "$out/elmo_speed_cuda.csv"
wanted tests && part tests 150 "$python" -m pytest -q -p no:cacheprovider -m cuda tests/elmo tests/drop_in tests/language_model
for task in coref ner srl squad snli sst; do
  wanted "$task" || continue
  limit=60; [ "$task" = coref ] && limit=150
  part "$task" "$limit" "$python" -m benchmarks "$task" "$data/$task" "$out/$task" --seeds --rounds 1 "${timed[@]}" "${overrides[@]}"
  [ -f "$out/$task/results.csv" ] && cp "$out/$task/results.csv" "$out/${task}_time_cuda.csv"
done
if wanted bilm && [ -n "$text" ] && [ "$(left)" -gt 60 ]; then
  mkdir -p text && ln -sfn "$(cd "$text" && pwd)" text/english
  mkdir -p text/english/first && cp -n pretrained/english/{options.json,weights.safetensors,vocab.txt} text/english/first/
  # As many blocks as an H100 reads in the time, so that the rate falls to zero; a slower GPU is stopped, and its last
  # checkpoint counts.
  timeout --signal=TERM "$(($(left) - 30))" "$python" -m allennlp train training_configs/bilm_english_gpu.jsonnet \
    -s "$out/bilm" --overrides "{\"data_loader.batches_per_epoch\": $((($(left) - 45) * 9))}" >"$out/bilm.log" 2>&1
  echo "bilm: ended with $? after $((SECONDS - began)) s"
  last=$(ls -t "$out"/bilm/model_state_*.th 2>/dev/null | head -1)
  [ -f "$out/bilm/model.tar.gz" ] || [ -z "$last" ] || cp "$last" "$out/bilm/best.th"
  part export 60 "$python" -m allennlp elmo export "$out/bilm" "$out/english" --format safetensors
fi
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
