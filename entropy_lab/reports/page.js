"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("data").textContent);
  const PAGE = 25, OPEN_AT_FIRST = 2, SHOWN_CHARACTERS = 120, COLOURS = 8;

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const isolated = (text, className) => make("bdi", className, text);

  // Three significant digits; entropies and log-probabilities come in thousandths, so no more than three decimals.
  const number = (value, decimals = 3) => {
    if (value === null) return "—";
    const size = Math.abs(value);
    const digits = size === 0 ? 0 : Math.min(decimals, Math.max(0, 2 - Math.floor(Math.log10(size))));
    return value.toFixed(digits).replace("-", "−");
  };
  const chance = (value) => (value !== null && value > 0 && value < 0.001 ? "< 0.001" : number(value));
  const shown = (text) => {
    const marked = text.slice(0, SHOWN_CHARACTERS).replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
    return (text.length > SHOWN_CHARACTERS ? marked + "…" : marked) || "(no text)";
  };

  // Theme: the system's choice until the reader makes one.
  const theme = find("theme");
  const isDark = () => (document.documentElement.dataset.theme
    ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = isDark() ? "Light theme" : "Dark theme"; };
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  nameTheme();
  theme.hidden = false;
  if (!data.trajectories.length) return;

  // A trajectory's columns: t text index, h entropy and l surprisal in thousandths, o other tokens, b blocks.
  const text = (index) => data.strings[index];
  const entropy = (row, at) => (row.h[at] === null ? null : row.h[at] / 1000);
  const shade = (value) => (value === null ? 0 : Math.round(10 * Math.min(1, value / data.scale)));
  const blockAt = (row, at) => row.b.find(([start, stop]) => start <= at && at < stop);
  const completion = (row) => row.t.map(text).join("");
  const GRADES = new Map([[true, "✓ correct"], [false, "✗ wrong"], [null, "– ungraded"]]);

  const popover = find("popover");
  let shownToken = null, closing = 0;

  const tableOf = (pairs, className) => {
    const table = make("table", className);
    for (const [name, value] of pairs) {
      const line = table.insertRow();
      const head = make("th");
      head.scope = "row";
      head.append(isolated(name));
      line.append(head, make("td", "", value));
    }
    return table;
  };
  const place = (token) => {
    const box = token.getClientRects()[0] ?? token.getBoundingClientRect();
    const width = popover.offsetWidth, height = popover.offsetHeight;
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - width - 8));
    const below = box.bottom + 8 + height < innerHeight || box.top < height + 8;
    popover.style.left = `${left + scrollX}px`;
    popover.style.top = `${(below ? box.bottom + 8 : box.top - height - 8) + scrollY}px`;
  };
  const describe = (row, at) => {
    const heading = make("p", "heading");
    heading.append(make("strong", "", ""), ` token ${at + 1} of ${row.t.length}`);
    heading.firstChild.append(isolated(shown(text(row.t[at]))));
    const surprisal = row.l[at] === null ? null : row.l[at] / 1000;
    const parts = [heading, tableOf([
      ["entropy H", `${number(entropy(row, at))} nats`],
      ["p", chance(surprisal === null ? null : Math.exp(-surprisal))],
      ["log p", surprisal === null ? "—" : number(-surprisal)],
    ])];
    const others = row.o[at];
    if (others) {
      const pairs = [];
      for (let index = 0; index < others.length; index += 2) pairs.push([shown(text(others[index])), chance(others[index + 1])]);
      parts.push(make("p", "", "Likeliest tokens here"), tableOf(pairs, "other"));
    }
    const block = blockAt(row, at);
    if (block) {
      const [start, stop, peak, mean, share] = block;
      const range = stop - start > 1 ? `tokens ${start + 1} to ${stop}` : `token ${stop}`;
      parts.push(make("p", "", `Decision block, ${range}: peak ${number(peak)}, mean ${number(mean)} nats, `
        + `${number(share)} of the trajectory's entropy`));
    }
    return parts;
  };
  const hide = () => {
    clearTimeout(closing);
    popover.hidden = true;
    shownToken?.removeAttribute("aria-describedby");
    shownToken = null;
  };
  const show = (token) => {
    clearTimeout(closing);
    if (token === shownToken) return;
    hide();
    shownToken = token;
    popover.replaceChildren(...describe(token.row, token.at));
    popover.hidden = false;
    token.setAttribute("aria-describedby", "popover");
    place(token);
  };
  const hideSoon = () => { clearTimeout(closing); closing = setTimeout(hide, 150); };
  popover.addEventListener("pointerenter", () => clearTimeout(closing));
  popover.addEventListener("pointerleave", hideSoon);
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  const drawToken = (row, at) => {
    const token = make("span", `t h${shade(entropy(row, at))}`);
    token.row = row;
    token.at = at;
    token.tabIndex = at === 0 ? 0 : -1;
    token.setAttribute("role", "option");
    text(row.t[at]).split("\n").forEach((line, index) => {
      if (index) token.append(make("i", "nl"), "\n");
      if (line) token.append(line);
    });
    return token;
  };
  const drawTokens = (row) => {
    const area = make("div", "tokens");
    area.setAttribute("role", "listbox");
    area.setAttribute("aria-orientation", "horizontal");
    area.setAttribute("aria-label", `Tokens of problem ${text(row.p)}, sample ${row.i}`);
    const tokens = [];
    let group = null, groupOf = null;
    row.t.forEach((_, at) => {
      const token = drawToken(row, at), block = blockAt(row, at);
      tokens.push(token);
      if (!block) { area.append(token); return; }
      if (block !== groupOf) {
        group = make("span", "block");
        group.setAttribute("role", "group");
        group.setAttribute("aria-label", "decision block");
        groupOf = block;
        area.append(group);
      }
      group.append(token);
    });
    let current = 0;
    const move = (to) => {
      const at = Math.max(0, Math.min(tokens.length - 1, to));
      tokens[current].tabIndex = -1;
      current = at;
      tokens[at].tabIndex = 0;
      tokens[at].focus();
    };
    const starts = row.b.map(([start]) => start);
    const keys = {
      ArrowRight: () => current + 1,
      ArrowLeft: () => current - 1,
      ArrowDown: () => starts.find((start) => start > current) ?? current,
      ArrowUp: () => starts.findLast((start) => start < current) ?? current,
      Home: () => 0,
      End: () => tokens.length - 1,
    };
    area.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      move(keys[event.key]());
    });
    const tokenOf = (event) => event.target.closest?.(".t");
    area.addEventListener("focusin", (event) => {
      const token = tokenOf(event);
      if (!token) return;
      tokens[current].tabIndex = -1;
      current = token.at;
      token.tabIndex = 0;
      show(token);
    });
    area.addEventListener("focusout", hideSoon);
    area.addEventListener("pointerover", (event) => { const token = tokenOf(event); if (token) show(token); });
    area.addEventListener("pointerleave", () => {
      if (!area.contains(document.activeElement)) hideSoon();
      else show(document.activeElement);
    });
    area.addEventListener("click", (event) => tokenOf(event)?.focus());
    return area;
  };

  const mean = (values) => {
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length / 1000 : null;
  };
  const drawBody = (row) => {
    const body = make("div", "body");
    if (text(row.q)) body.append(make("p", "question"));
    if (text(row.q)) body.firstChild.append(isolated(text(row.q)));
    body.append(row.t.length ? drawTokens(row) : make("p", "muted", "No tokens."));
    const outcome = make("p", "outcome", "Verdict ");
    outcome.append(isolated(text(row.v), "mono"));
    if (row.a !== null) outcome.append(" · answer ", isolated(text(row.a), "mono"));
    body.append(outcome);
    return body;
  };
  const drawTrajectory = (row, open) => {
    const item = make("details", "trajectory");
    const summary = make("summary");
    const name = make("span");
    if (data.checkpoints.length > 1) name.append(make("span", `key key-${(row.c % COLOURS) + 1}`));
    name.append(isolated(data.checkpoints[row.c]));
    const problem = make("span", "muted", "problem ");
    problem.append(isolated(text(row.p)), `, sample ${row.i}`);
    const size = make("span", "muted", `${row.t.length} tokens, mean H ${number(mean(row.h))} nats, ended by `);
    size.append(isolated(data.reasons[row.f]));
    summary.append(make("span", "verdict", GRADES.get(row.g)), name, problem, size);
    item.append(summary);
    item.addEventListener("toggle", () => { if (item.open && item.children.length === 1) item.append(drawBody(row)); });
    item.open = open;
    return item;
  };

  const list = find("list"), more = find("more"), count = find("count"), filters = find("filters");
  let matching = [], drawn = 0;
  const drawMore = () => {
    for (const row of matching.slice(drawn, drawn + PAGE)) list.append(drawTrajectory(row, list.children.length < OPEN_AT_FIRST));
    drawn = Math.min(matching.length, drawn + PAGE);
    more.hidden = drawn === matching.length;
    more.textContent = `Show ${Math.min(PAGE, matching.length - drawn)} more of ${matching.length - drawn}`;
  };
  const searched = (row) => {
    row.searched ??= [row.p, row.q, row.v, row.a].filter((index) => index !== null).map(text)
      .concat(completion(row)).join("\n").toLowerCase();
    return row.searched;
  };
  const select = () => {
    const wanted = Object.fromEntries(new FormData(filters));
    const needle = wanted.text.toLowerCase();
    matching = data.trajectories.filter((row) =>
      (!wanted.checkpoint || row.c === Number(wanted.checkpoint))
      && (!wanted.grade || String(row.g) === wanted.grade)
      && (!wanted.end || row.f === Number(wanted.end))
      && (!needle || searched(row).includes(needle)));
    const kept = data.trajectories.length, measured = data.measured.toLocaleString("en");
    count.textContent = (matching.length < kept ? `${matching.length} of ${kept} trajectories` : `${kept} trajectories`)
      + (data.measured ? `, out of ${measured} measured` : "");
    hide();
    list.replaceChildren();
    drawn = 0;
    drawMore();
  };
  let typing = 0;
  filters.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(select, 150); });
  filters.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", drawMore);
  filters.hidden = false;
  find("legend").hidden = false;
  select();
})();
