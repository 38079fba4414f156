// What the page shows, as its address has it: the table of a folder, the version, and what is open in the dialog.
// So that an address can be pasted, reloaded and gone back to. Names: table, at, commit, from and to.

const NUMBERS = ["at", "commit", "from", "to"];

export function address() {
  const given = new URLSearchParams(location.search);
  const found = { table: given.get("table") };
  for (const name of NUMBERS) found[name] = /^\d{1,15}$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null;
  return found;
}

// The address with some names changed; null leaves one out.
export function addressWith(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return `${location.pathname}${text ? `?${text}` : ""}${location.hash}`;
}

// Change it, as another entry of the browser's history; an address that stays the same is not entered twice.
export function goAddress(changes) {
  const to = addressWith(changes);
  if (to !== `${location.pathname}${location.search}${location.hash}`) history.pushState(null, "", to);
}
