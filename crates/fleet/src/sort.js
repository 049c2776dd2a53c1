// Sorts the table by a column when its head is clicked: numbers as numbers, and once more in the
// other order.
for (const head of document.querySelectorAll("#clusters th[scope=col]")) {
  head.tabIndex = 0;
  const sort = () => {
    const body = head.closest("table").tBodies[0], at = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const text = row.cells[at].textContent, number = parseFloat(text.replace(/,/g, "").replace("−", "-"));
      return Number.isNaN(number) ? text : number;
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === typeof b ? a.localeCompare(b) : typeof a === "number" ? -1 : 1;
    for (const row of [...body.rows].sort((a, b) => (up ? 1 : -1) * compare(key(a), key(b)))) body.append(row);
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
