// Shows the document of the service with Swagger UI, which is dark if the root element says so.
"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();
SwaggerUIBundle({ url: document.getElementById("swagger").dataset.document, dom_id: "#swagger", deepLinking: true });
