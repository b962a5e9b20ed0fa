"use strict";
const input = document.querySelector("#text");
const list = document.querySelector("#answers");
async function search() {
  const body = JSON.stringify({ text: input.value, k: 24 });
  const response = await fetch("v1/search", { method: "POST", body, headers: { "Content-Type": "application/json" } });
  const found = await response.json();
  list.replaceChildren(...(found.results?.[0].answers ?? []).map((answer) => {
    const item = document.createElement("li");
    if (answer.thumbnail) item.append(Object.assign(document.createElement("img"), { src: answer.thumbnail.slice(1), alt: "" }));
    item.append(answer.id);
    return item;
  }));
}
input.addEventListener("input", () => input.value.trim() && search());
document.querySelector("#search").addEventListener("submit", (event) => event.preventDefault());
