// Replaces the fragments of the page that the server sends, and connects again when it is gone.
"use strict";

const RETRY_MILLISECONDS = 2000;
const state = document.getElementById("state");

function show(text) {
  if (state.textContent !== text) {
    state.textContent = text;
    state.className = text === "live" ? "live" : "";
  }
}

function replace(id, html) {
  const element = document.getElementById(id);
  if (!element) {
    return;
  }
  const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
  element.innerHTML = html;
  if (focused) {
    document.getElementById(focused)?.focus();
  }
}

function connect() {
  const source = new EventSource("/events" + location.search);
  source.addEventListener("open", () => show("live"));
  source.addEventListener("fragment", (event) => {
    const end = event.data.indexOf("\n");
    replace(event.data.slice(0, end), event.data.slice(end + 1));
  });
  source.addEventListener("error", () => {
    show("connection lost, trying again");
    source.close();
    setTimeout(connect, RETRY_MILLISECONDS);
  });
}

connect();
