// Adding pictures with captions: dropped files are listed with a caption and labels, and sent one by one.

import { button, count, element, fill, icon } from "./elements.js";
import { asKnown } from "./labels.js";
import { pictureOf } from "./pictures.js";
import { addItem } from "./service.js";

/** Open the dialog for files; texts with the name of a picture are its caption. */
export async function addPictures(files, { editor, takesTexts, onAdded }) {
  const dialog = document.querySelector("#adding");
  const pictures = [...files].filter((file) => file.type.startsWith("image/"));
  const captions = new Map();
  for (const file of files) if (/\.txt$/i.test(file.name)) captions.set(stem(file.name), (await file.text()).trim().slice(0, 2000));
  const known = editor.known();
  const rows = pictures.map((file, place) => ({
    file,
    caption: element("input", { type: "text", class: "field", id: `caption-${place}`, "aria-label": `Caption of ${file.name}`, value: captions.get(stem(file.name)) ?? wordsOf(file.name), maxlength: 2000 }),
    state: element("span", { class: "faint", role: "status" }),
  }));
  const labels = element("input", { type: "text", class: "field", id: "adding-labels", placeholder: "shoes, red", list: "adding-known" });
  const add = element("button", { class: "primary", id: "add" }, `Add ${count(rows.length, "picture")}`);
  const chooser = element("input", { type: "file", accept: "image/*,.txt", multiple: true, id: "add-files", "aria-label": "Choose pictures", onchange: (event) => addPictures(event.target.files, { editor, takesTexts, onAdded }) });
  const form = element("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      add.disabled = true;
      const keys = [];
      const names = labels.value.split(/[,;]/).map((name) => asKnown(name.trim(), known)).filter(Boolean);
      for (const row of rows.filter((each) => !each.done)) {
        fill(row.state, "Adding…");
        const done = await editor.send(async () => addItem(await itemOf(row, names, takesTexts)));
        row.done = Boolean(done);
        fill(row.state, done ? "Added" : "Not added");
        if (done) keys.push(done.undo);
      }
      add.disabled = false;
      if (!keys.length) return;
      if (rows.every((row) => row.done)) dialog.close();
      onAdded();
      editor.report(`Added ${count(keys.length, "picture")}.`, ...keys);
    },
  },
  element("ol", { class: "new-pictures" }, rows.map((row) => element("li", {},
    element("span", { class: "tile" }, pictureOf(row.file)), element("div", {}, takesTexts ? row.caption : element("span", {}, row.file.name), row.state)))),
  rows.length ? element("label", { class: "field-row" }, element("span", {}, "Labels of all"), labels, element("datalist", { id: "adding-known" }, known.map((name) => element("option", { value: name })))) : null,
  element("div", { class: "buttons" }, rows.length ? add : element("label", { class: "primary chooser" }, "Choose pictures", chooser), button("Cancel", () => dialog.close(), { class: "quiet" })));
  fill(dialog,
    element("header", {}, element("h2", { id: "adding-title" }, rows.length ? `Add ${count(rows.length, "picture")}` : "Add pictures"),
      element("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))),
    rows.length ? null : element("p", { class: "faint" }, "Choose pictures, or drop them anywhere on the page. A .txt file with the name of a picture is its caption."),
    form);
  if (!dialog.open) dialog.showModal();
}

const stem = (name) => name.replace(/\.[^.]*$/, "").toLowerCase();

/** The words of a file name. */
const wordsOf = (name) => name.replace(/\.[^.]*$/, "").replace(/[_\-.]+/g, " ").trim();

async function itemOf(row, labels, takesTexts) {
  const text = row.caption.value.trim();
  const id = `${wordsOf(row.file.name).slice(0, 80) || "picture"}-${crypto.getRandomValues(new Uint32Array(1))[0].toString(16)}`;
  return { id, image: await base64(row.file), labels, ...(takesTexts && text ? { text } : {}) };
}

async function base64(file) {
  const address = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return address.slice(address.indexOf(",") + 1);
}
