// The list of collections of a service that has several.

import { request, useToken } from "./service.js";

const list = document.getElementById("collections");
const form = document.getElementById("key");

async function show() {
  try {
    const { collections } = await (await request("v1/collections")).json();
    form.hidden = true;
    list.replaceChildren(...collections.map(entry));
  } catch (failure) {
    form.hidden = failure.kind !== "token";
    list.replaceChildren(item(failure.message));
  }
}

function entry({ name, address, items }) {
  const link = document.createElement("a");
  link.href = address;
  const size = document.createElement("span");
  size.textContent = `${items.toLocaleString("en")} ${items === 1 ? "item" : "items"}`;
  link.append(name, size);
  return item(link);
}

function item(content) {
  const line = document.createElement("li");
  line.append(content);
  return line;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(document.getElementById("key-field").value);
  show();
});

show();
