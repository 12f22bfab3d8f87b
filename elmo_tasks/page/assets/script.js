// The page works without this script. It refuses input that is too long before it is sent, shows that an answer is
// being computed, submits with Enter, adds a button that copies the JSON, and lights the mentions of a cluster.
"use strict";

const form = document.querySelector("form");
const tabs = document.querySelector(".tabs"), current = tabs.querySelector("[aria-current]");
// With `scrollIntoView`, Tab would begin behind the current tab in Chromium 150.
if (current) tabs.scrollLeft = current.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
tabs.addEventListener("focusin", ({ target }) =>
  target.scrollIntoView({ block: "nearest", inline: "nearest" }));

function tooLong(field) {
  const words = field.value.trim().split(/\s+/).length;
  const bytes = new URLSearchParams([[field.name, field.value]]).toString().length;
  const count = (number) => number.toLocaleString("en");
  if (words > Number(form.dataset.words))
    return `${count(words)} words, and ${count(Number(form.dataset.words))} at most can be read`;
  if (bytes > Number(form.dataset.bytes))
    return `${count(bytes)} bytes, and ${count(Number(form.dataset.bytes))} at most can be read`;
  return "";
}

if (form) {
  const status = document.getElementById("status");
  const button = form.querySelector("button");
  const quiet = status.textContent;
  const texts = [...form.querySelectorAll("textarea, input:not([type])")];
  const check = () => {
    texts.forEach((field) => field.setCustomValidity(tooLong(field)));
    const problem = texts.map(tooLong).find(Boolean);
    status.textContent = problem || quiet;
    status.classList.toggle("bad", Boolean(problem));
  };
  const rest = () => {
    button.setAttribute("aria-disabled", "false");
    status.classList.remove("busy");
    check();
  };
  form.addEventListener("input", check);
  form.addEventListener("submit", (event) => {
    if (button.getAttribute("aria-disabled") === "true") return event.preventDefault();
    button.setAttribute("aria-disabled", "true");
    status.classList.add("busy");
    status.textContent = "Working …";
  });
  // Enter submits a sentence, Ctrl+Enter (Command+Enter) every text; Shift+Enter starts a line.
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    const submits = event.ctrlKey || event.metaKey || (!event.shiftKey && "enter" in event.target.dataset);
    if (!submits) return;
    event.preventDefault();
    form.requestSubmit();
  });
  // Going back in the browser's history shows the page as it was.
  window.addEventListener("pageshow", rest);
}

for (const button of document.querySelectorAll("[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: copy it with Ctrl+C";
    }
  });
}

// Pointing at a cluster, or moving the focus to it, lights its mentions until another one is chosen.
for (const chosen of ["mouseover", "focusin"])
  document.querySelector(".clusters tbody")?.addEventListener(chosen, ({ target }) => {
    const { cluster } = target.closest("tr").dataset;
    for (const mark of document.querySelectorAll(".inline mark")) mark.classList.toggle("lit", mark.title === cluster);
  });
