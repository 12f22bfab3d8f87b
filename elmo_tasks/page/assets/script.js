// The page works without this script. It refuses input that is too long before it is sent, shows that an answer is
// being computed, and adds a button that copies the JSON.
"use strict";

const form = document.querySelector("form");

function tooLong(field) {
  const words = field.value.trim().split(/\s+/).length;
  const bytes = new URLSearchParams([[field.name, field.value]]).toString().length;
  const count = (number) => number.toLocaleString("en");
  if (words > Number(form.dataset.words))
    return `found ${count(words)} words, expected at most ${count(Number(form.dataset.words))}`;
  if (bytes > Number(form.dataset.bytes))
    return `found ${count(bytes)} bytes, expected at most ${count(Number(form.dataset.bytes))}`;
  return "";
}

if (form) {
  const status = document.getElementById("status");
  const button = form.querySelector("button");
  const quiet = status.textContent;
  const texts = [...form.querySelectorAll("textarea, input:not([type])")];
  const check = () => {
    texts.forEach((field) => field.setCustomValidity(tooLong(field)));
    status.textContent = texts.map((field) => field.validationMessage && tooLong(field)).find(Boolean) || quiet;
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
