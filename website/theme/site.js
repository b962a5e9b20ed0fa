document.addEventListener("DOMContentLoaded", () => {
  // Set the mathematics, which the pages have as TeX.
  for (const element of document.querySelectorAll(".arithmatex")) {
    renderMathInElement(element, {
      delimiters: [
        { left: "\\(", right: "\\)", display: false },
        { left: "\\[", right: "\\]", display: true },
      ],
      throwOnError: true,
    });
  }
  // What is scrolled by a pointer is scrolled by keys, too.
  for (const element of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code, .arithmatex")) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
  }
});
