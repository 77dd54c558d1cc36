// Drives the page in a real Chromium and says in JSON what it saw. Python starts the server and judges.
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';

const { address, frontend, chromium: executablePath, task, given } = JSON.parse(process.argv[2]);
const require = createRequire(`${frontend}/package.json`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const sandbox = process.getuid() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({
  executablePath,
  args: ['--disable-dev-shm-usage', '--font-render-hinting=none', '--force-color-profile=srgb', ...sandbox],
});
const troubles = []; // requests to elsewhere, errors of the page

const at = (hash) => (address.startsWith('file:') ? address + hash : `${address}/${hash}`); // a file is a page of its own

async function opened({ scheme = 'light', width = 1280, hash = '', forced = 'none' } = {}) {
  const context = await browser.newContext({
    reducedMotion: 'reduce', locale: 'en-GB', colorScheme: scheme, forcedColors: forced, viewport: { width, height: 900 },
  });
  await context.route('**/*', (route) => {
    const url = route.request().url();
    if (url.startsWith(address) || url.startsWith('data:')) return route.continue();
    troubles.push(`asked for ${url}`);
    return route.abort();
  });
  const page = await context.newPage();
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && troubles.push(message.text()));
  page.on('pageerror', (error) => troubles.push(error.message));
  await page.goto(at(hash));
  await settled(page);
  return page;
}

/** Until nothing is being fetched and nothing says that it is read. */
async function settled(page) {
  await page.waitForSelector('main h2', { timeout: 30_000 });
  await page.waitForLoadState('networkidle');
  const busy = 'main [role=status].quiet, main [aria-busy=true], main[aria-busy=true]';
  await page.waitForFunction((still) => document.querySelector(still) === null, busy, { timeout: 30_000 });
}

const where = (page) => page.locator('nav[aria-label=Steps] .where').textContent();
const heading = (page) => page.locator('main h2').first().textContent();
/** As the page has it now; what the driver knows of it may be a moment older. */
const hash = (page) => page.evaluate(() => location.hash);
const badges = (page) => page.$$eval('[data-difference]', (all) => all.map((one) => Number(one.dataset.difference)));

const TASKS = {
  /** What tables say, at addresses that are given. */
  async read() {
    const page = await opened({ hash: given[0].hash });
    const found = [];
    for (const { hash, rows } of given) {
      await page.goto('about:blank');
      await page.goto(at(hash));
      await settled(page);
      const table = await page.$$eval(`${rows} tr`, (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
      found.push({ table, badges: await badges(page), heading: await heading(page) });
    }
    return found;
  },

  /** Step by step by keys alone; of each what axe says, and what the badges say. */
  async walk() {
    const page = await opened(given);
    const seen = [];
    for (let step = 0; step < 40; step++) {
      await settled(page);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      seen.push({
        where: await where(page),
        heading: await heading(page),
        badges: await badges(page),
        violations: violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(' | ')}`),
        beyond: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
        focus: await page.evaluate(() => document.activeElement?.id ?? ''),
      });
      const before = await hash(page);
      await page.keyboard.press('n');
      if ((await hash(page)) === before) break;
    }
    return seen;
  },

  /** The grid by keys: to it by Tab, within it by arrows, out of it by Enter. */
  async grid() {
    const page = await opened({ hash: given.hash });
    const says = () => page.locator('[role=grid] ~ [role=status], .heatmap [role=status]').first().textContent();
    for (let i = 0; i < 120; i++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(() => document.activeElement?.getAttribute('role') === 'grid')) break;
    }
    const heard = { role: await page.evaluate(() => document.activeElement?.getAttribute('role')), start: await says() };
    for (const key of ['Home', 'ArrowRight', 'ArrowDown', ']', 'PageUp', 'End']) {
      await page.keyboard.press(key);
      await settled(page);
      heard[key] = await says();
      heard[`${key} at`] = await hash(page);
    }
    heard.focus = await page.evaluate(() => document.activeElement?.getAttribute('role'));
    await page.keyboard.press('Enter');
    await settled(page);
    heard.open = await page.locator('[aria-expanded=true]').count();
    return heard;
  },

  /** A link is a view: the same after a reload, and Back goes back. */
  async links() {
    const page = await opened({ hash: given.hash });
    const seen = async () => [await heading(page), await page.locator('[data-way] tbody').first().innerText(), await hash(page)];
    const first = await seen();
    await page.reload();
    await settled(page);
    const again = await seen();
    await page.getByRole('tab', { name: 'Heads' }).click();
    const away = await hash(page);
    await page.goBack();
    await settled(page);
    return { first, again, away, back: await seen() };
  },

  /** Another sentence, by the form; words that change when matrices are others'. */
  async ask() {
    const page = await opened();
    await page.getByLabel('Sentence', { exact: true }).fill(given.text);
    await page.getByRole('button', { name: 'Look inside' }).click();
    await page.waitForFunction((text) => document.querySelector('[data-translation]')?.textContent === text, given.translation, { timeout: 30_000 });
    const asked = await hash(page);
    await page.goto(`${address}/#v=bridge`);
    await settled(page);
    await page.getByRole('button', { name: given.button }).click();
    const instead = await page.locator('[data-instead]').textContent();
    await page.goto(`${address}/#v=sentence&s=${encodeURIComponent('word '.repeat(400))}`);
    const error = await page.locator('[role=alert]').textContent();
    return { hash: asked, instead, error };
  },

  /** The steps' titles, and their addresses. */
  async steps() {
    const page = await opened(given);
    const seen = [];
    for (let step = 0; step < 40; step++) {
      const title = await page.locator('nav[aria-label=Steps] option:checked').textContent();
      seen.push({ title: title.replace(/^\d+ · /, ''), hash: await hash(page) });
      await page.keyboard.press('n');
      if ((await hash(page)) === seen[step].hash) break;
      await settled(page);
    }
    return seen;
  },

  /** Each view as a picture, the whole of it. */
  async pictures() {
    const sizes = [];
    for (const { hash, scheme, width, path } of given) {
      const page = await opened({ hash, scheme, width });
      await page.evaluate(() => document.activeElement?.blur());
      // As tall as what it shows, so that bars which stay in sight lie at the end and not in the middle.
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      await page.setViewportSize({ width, height: Math.min(height, 4000) });
      await settled(page);
      const session = await page.context().newCDPSession(page); // it can write WebP, a third of PNG's size
      const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 80 });
      writeFileSync(path, Buffer.from(data, 'base64'));
      sizes.push({ path, height });
      await page.context().close();
    }
    return sizes;
  },

  /** How soon, how fast and how much, on a long sentence and a wide model. */
  async budget() {
    const page = await opened({ hash: given.hash, width: 1440 });
    const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
    const found = { paint, nodes: {}, redraw: {} };
    for (const [name, hash] of Object.entries(given.views)) {
      await page.evaluate((to) => (location.hash = to), hash);
      await settled(page);
      found.nodes[name] = await page.evaluate(() => document.querySelectorAll('*').length);
      // From the choice of another token until its styles and layout stand; the best of seven, as machines are shared.
      found.redraw[name] = await page.evaluate(async () => {
        const tokens = [...document.querySelectorAll('header button[aria-pressed]')];
        const chosen = tokens.findIndex((one) => one.ariaPressed === 'true');
        const times = [];
        for (let i = 1; i <= 7; i++) {
          const began = performance.now();
          tokens[chosen + i].click();
          await Promise.resolve();
          document.body.getBoundingClientRect(); // styles and layout, at once
          times.push(performance.now() - began);
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        }
        return Math.min(...times);
      });
    }
    return found;
  },

  /** A notebook in JupyterLab: run, then the widget in its cell, walked through by keys; then saved. */
  async notebook() {
    const context = await browser.newContext({ reducedMotion: 'reduce', locale: 'en-GB', viewport: { width: 1280, height: 1000 } });
    await context.route('**/*', (route) => {
      const url = route.request().url();
      if (/^(data|blob):/.test(url) || url.startsWith(address)) return route.continue();
      troubles.push(`asked for ${url}`);
      return route.abort();
    });
    const page = await context.newPage();
    page.on('pageerror', (error) => troubles.push(error.message));
    await page.goto(`${address}/lab/tree/${given.notebook}`);
    await page.locator('.jp-NotebookPanel .jp-Cell').first().click({ timeout: 90_000 });
    await page.waitForFunction(() => document.querySelector('.jp-NotebookPanel [data-status=idle]') !== null, null, { timeout: 90_000 });
    await page.getByRole('menuitem', { name: 'Run', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Run All Cells', exact: true }).click();
    const cell = page.locator('.jp-OutputArea-output').filter({ has: page.locator('main h2') }).first();
    await cell.locator('main h2').first().waitFor({ timeout: 120_000 });
    const seen = [];
    for (let step = 0; step < 40; step++) {
      const idle = 'main[aria-busy=false]:not(:has([role=status].quiet, [aria-busy=true]))';
      await cell.locator(idle).waitFor({ timeout: 60_000 });
      seen.push({
        where: await cell.locator('nav[aria-label=Steps] .where').textContent(),
        heading: await cell.locator('main h2').first().textContent(),
        badges: await cell.locator('[data-difference]').evaluateAll((all) => all.map((one) => Number(one.dataset.difference))),
        errors: await cell.locator('[role=alert]').allTextContents(),
      });
      await cell.locator('main').first().focus();
      await page.keyboard.press('n');
      await page.waitForTimeout(200);
      if ((await cell.locator('nav[aria-label=Steps] .where').textContent()) === seen.at(-1).where) break;
    }
    const asked = {};
    if (given.text) {
      await cell.locator('nav[aria-label=Steps] select').selectOption('0');
      await cell.getByLabel('Sentence', { exact: true }).fill(given.text);
      await cell.getByRole('button', { name: 'Look inside' }).click();
      await cell.locator('[data-translation]').filter({ hasText: given.translation }).waitFor({ timeout: 60_000 });
      asked.translation = await cell.locator('[data-translation]').textContent();
    }
    const cells = await page.locator('.jp-Notebook .jp-Cell').count();
    await page.evaluate(() => document.body.setAttribute('data-jp-theme-light', 'false'));
    const dark = await cell.locator('main').evaluate((main) => getComputedStyle(main.getRootNode().host).backgroundColor);
    if (given.picture) await page.screenshot({ path: given.picture });
    // Keys are the cell's, but Ctrl+S still saves the notebook.
    await cell.locator('main').first().focus();
    const saving = page.waitForResponse((answer) => answer.request().method() === 'PUT' && answer.url().includes('/api/contents/'));
    await page.keyboard.press('Control+s');
    await saving;
    return { seen, asked, cells, dark };
  },

  /** A page with the explorer in a frame: of each frame, what stands in it, and how high it is. */
  async framed() {
    const context = await browser.newContext({ reducedMotion: 'reduce', locale: 'en-GB', viewport: { width: 1280, height: 900 } });
    const asked = [];
    await context.route('**/*', (route) => {
      if (/^(data|blob):/.test(route.request().url()) || route.request().url() === address) return route.continue();
      asked.push(route.request().url());
      return route.abort();
    });
    const page = await context.newPage();
    page.on('pageerror', (error) => troubles.push(error.message));
    await page.goto(address);
    const found = [];
    for (const frame of await page.locator('iframe[srcdoc]').all()) {
      await frame.scrollIntoViewIfNeeded();
      const inside = frame.contentFrame();
      await inside.locator('main h2').first().waitFor({ timeout: 30_000 });
      await inside.locator('main').focus();
      await page.keyboard.press('n');
      await inside.locator('main canvas').first().waitFor({ timeout: 30_000 });
      await page.waitForTimeout(500);
      const sizes = () => frame.evaluate((one) => [one.clientHeight, one.contentDocument.body.getBoundingClientRect().height, one.contentDocument.documentElement.scrollHeight]);
      const before = await sizes();
      await page.waitForTimeout(700);
      found.push({ heading: await inside.locator('main h2').first().textContent(), before, after: await sizes(), where: await inside.locator('.where').textContent() });
    }
    return { found, asked };
  },

  /** The widget in a page that plays VS Code: a script from a Blob, a model that answers, a body that says its colours. */
  async widget() {
    const context = await browser.newContext({ reducedMotion: 'reduce', colorScheme: 'light', viewport: { width: 900, height: 800 } });
    await context.route('**/*', (route) => {
      if (/^(data|blob):/.test(route.request().url()) || route.request().url() === address) return route.continue();
      troubles.push(`asked for ${route.request().url()}`);
      return route.abort();
    });
    const page = await context.newPage();
    page.on('console', (message) => message.type() === 'error' && troubles.push(message.text()));
    page.on('pageerror', (error) => troubles.push(error.message));
    await page.goto(address);
    await page.evaluate(async ({ script, answers }) => {
      const listeners = new Set();
      const model = {
        get: (name) => ({ saved: true, start: { v: 'attention', tab: 'heads' } })[name],
        on: (_, heard) => listeners.add(heard),
        off: (_, heard) => listeners.delete(heard),
        send: ({ id, path }) => {
          const bytes = Uint8Array.from(atob(answers[path]), (letter) => letter.charCodeAt(0));
          const half = Math.ceil(bytes.length / 2);
          [bytes.slice(0, half), bytes.slice(half)].forEach((one, piece) =>
            setTimeout(() => listeners.forEach((heard) => heard({ id, piece, pieces: 2, status: 200, headers: {} }, [new DataView(one.buffer)]))),
          );
        },
      };
      const { default: widget } = await import(URL.createObjectURL(new Blob([script], { type: 'text/javascript' })));
      const [first, second] = [document.createElement('div'), document.createElement('div')];
      document.body.append(first, second);
      window.listeners = listeners;
      window.leave = widget.render({ model, el: first });
      widget.render({ model: { ...model, get: (name) => ({ saved: true, start: {} })[name] }, el: second });
    }, JSON.parse(readFileSync(given.from, 'utf8')));
    const [first, second] = [page.locator('body > div').nth(0), page.locator('body > div').nth(1)];
    await first.locator('[data-share]').first().waitFor({ timeout: 30_000 });
    await second.locator('[data-translation]').waitFor({ timeout: 30_000 });
    const ground = () => first.locator('main').evaluate((main) => getComputedStyle(main.getRootNode().host).backgroundColor);
    const found = { dark: await ground(), headings: [await first.locator('h2').first().textContent(), await second.locator('h2').first().textContent()] };
    found.margin = await page.evaluate(() => getComputedStyle(document.querySelector('p.outside')).color);
    await page.evaluate(() => document.body.classList.replace('vscode-dark', 'vscode-light'));
    await page.waitForTimeout(100);
    found.light = await ground();
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document.body, { resultTypes: ['violations'] }));
    found.violations = violations.filter(({ id }) => !/landmark|region/.test(id)).map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(' | ')}`);
    found.address = page.url();
    await page.evaluate(() => window.leave());
    found.left = await page.evaluate(() => window.listeners.size);
    return found;
  },

  /** The dialog that saves, opened by its key: what it offers at each view, and every file that it gives. */
  async save() {
    const page = await opened(given);
    const found = [];
    for (const hash of given.views) {
      await page.evaluate((to) => (location.hash = to), hash);
      await settled(page);
      await page.locator('main').focus();
      await page.keyboard.press('s');
      const dialog = page.locator('dialog[open]');
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const files = [];
      for (const button of await dialog.getByRole('button', { name: /^(SVG|PNG|CSV|JSON|HTML)/ }).all()) {
        const coming = page.waitForEvent('download', { timeout: 60_000 });
        await button.click();
        const file = await coming;
        files.push(file.suggestedFilename());
        await file.saveAs(`${given.folder}/${found.length}-${file.suggestedFilename()}`);
      }
      for (let i = 0; i < 30; i++) await page.keyboard.press('Tab');
      found.push({
        files,
        caption: await dialog.locator('.caption').textContent(),
        violations: violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(' | ')}`),
        within: await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest('dialog') !== null),
        beyond: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
      });
      await page.keyboard.press('Escape');
      found.at(-1).closed = (await page.locator('dialog[open]').count()) === 0;
    }
    return found;
  },

  /** The what-if bench by keys alone: a word replaced, undone by its chip, by Back and by the button. */
  async bench() {
    const page = await opened({ hash: given.hash });
    const seen = async () => ({
      bar: (await page.locator('#side-target + .tokens').innerText()).replace(/\s+/g, ' ').trim(),
      before: await page.locator('[data-before]').textContent(),
      after: (await page.locator('[data-after]').count()) > 0 ? await page.locator('[data-after]').textContent() : null,
      chips: await page.$$eval('.chip span', (all) => all.map((one) => one.textContent)),
      w: new URLSearchParams(new URL(page.url()).hash.slice(1)).get('w'),
      focus: await page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.id ?? ''),
    });
    const change = async () => {
      await byTab(page, 'label:has-text("Word") select');
      await page.keyboard.type(given.old);
      await page.keyboard.press('Tab');
      await page.keyboard.type(given.new);
      await page.keyboard.press('Enter');
      await page.waitForSelector('[data-after]');
      await settled(page);
    };
    const found = { first: await seen() };
    await change();
    found.changed = await seen();
    found.words = await page.$$eval('[data-changed] li', (all) => all.map((one) => [...one.querySelectorAll('bdi')].map((word) => word.textContent)));
    found.deltas = await page.$$eval('[data-deltas] tbody tr', (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
    found.sum = await page.locator('[data-sum]').textContent();
    found.next = await page.$$eval('[data-next-tokens] tbody tr', (all) => all.map((row) => [row.dataset.id, ...[...row.children].map((cell) => cell.textContent.trim())]));
    await byTab(page, '.chip button');
    await page.keyboard.press('Enter');
    await settled(page);
    found.chip = await seen();
    await change();
    await page.goBack();
    await settled(page);
    found.back = await seen();
    await page.goForward();
    await page.waitForSelector('[data-after]');
    await settled(page);
    found.forth = await seen();
    await byTab(page, 'button:has-text("Undo all")');
    await page.keyboard.press('Enter');
    await settled(page);
    found.button = await seen();
    return found;
  },

  /** Every form as it stands at first, sent by Enter: what the address then says. */
  async forms() {
    const page = await opened({ hash: given.hash });
    const found = {};
    await byTab(page, 'input[type=radio]');
    for (let i = 0; i < given.count; i++) {
      const name = await page.evaluate(() => document.activeElement.parentElement.textContent.trim());
      const fields = await page.$$eval('.fields select', (all) => all.map((one) => one.selectedOptions[0]?.textContent ?? ''));
      if (await page.locator('.fields input[type=text]').count()) await page.locator('.fields input[type=text]').fill(given.text);
      await page.getByRole('button', { name: 'Make this change' }).press('Enter');
      await settled(page);
      const w = new URLSearchParams(new URL(page.url()).hash.slice(1)).get('w') ?? '[]';
      found[name] = { fields, changes: JSON.parse(w), error: await page.locator('main [role=alert]').allTextContents() };
      await page.getByRole('button', { name: 'Undo all' }).click();
      await settled(page);
      await page.locator('input[type=radio]:checked').focus();
      await page.keyboard.press('ArrowRight');
    }
    return found;
  },

  /** Views under changes: what axe says of each, how wide it is, what its tables and sentences say. */
  async under() {
    const page = await opened({ ...given.look, hash: given.hashes[0] });
    const seen = [];
    for (const hash of given.hashes) {
      await page.goto('about:blank');
      await page.goto(`${address}/${hash}`);
      await settled(page);
      await page.waitForSelector('[aria-label="What to show"] button:not(:disabled)');
      await settled(page);
      if (hash.includes('v=whatif')) {
        await page.getByRole('button', { name: 'Rank all heads' }).click();
        await page.waitForSelector('[data-ranked]');
      }
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      seen.push({
        hash,
        violations: violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`),
        beyond: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
        badges: await badges(page),
        note: await page.locator('[data-note]').allTextContents(),
        table: await page.$$eval('[data-word-difference] tbody tr', (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim()))),
        says: await page.locator('[data-says]').allTextContents(),
        moved: await page.$$eval('[data-moved]', (all) => all.map((one) => Number(one.dataset.moved))),
        heads: await page.$$eval('[data-head]', (all) => all.map((one) => [one.dataset.head, one.textContent])),
      });
    }
    return seen;
  },

  /** A head of the ranked grid is taken away by keys; an address that asks for what is not there says so. */
  async ranked() {
    const page = await opened({ hash: given.hash });
    await page.getByRole('button', { name: 'Rank all heads' }).click();
    await page.waitForSelector('[data-ranked]');
    await byTab(page, '[data-head]');
    for (const key of ['End', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
    await page.waitForSelector('[data-after]');
    await settled(page);
    const w = () => new URLSearchParams(new URL(page.url()).hash.slice(1)).get('w');
    const found = { removed: w(), focus: await page.evaluate(() => document.activeElement.dataset.head) };
    await page.keyboard.press('Enter');
    await settled(page);
    found.again = w();
    await page.goto('about:blank');
    await page.goto(`${address}/${given.strange}`);
    found.error = await page.locator('section [role=alert]').textContent();
    found.alive = await page.locator('[data-before]').textContent();
    return found;
  },

  /** What stands at selectors, at addresses that are given, after buttons were pressed and sliders moved. */
  async texts() {
    const page = await opened({ hash: given.views[0].hash });
    const found = [];
    for (const { hash, press = [], slide = {}, select } of given.views) {
      await page.goto('about:blank');
      await page.goto(`${address}/${hash}`);
      await settled(page);
      for (const selector of press) await page.locator(selector).first().click();
      for (const [name, value] of Object.entries(slide)) await page.getByLabel(name).fill(value);
      await settled(page);
      const seen = { badges: await badges(page), hash: new URL(page.url()).hash, heading: await heading(page) };
      for (const [name, selector] of Object.entries(select)) seen[name] = await page.$$eval(selector, (all) => all.map((one) => one.textContent.trim()));
      found.push(seen);
    }
    return found;
  },

  /** The search's tree: every node's numbers, then a walk through it by keys, a hypothesis followed, a token forced. */
  async tree() {
    const page = await opened({ hash: given.hash });
    const says = async () => ({
      node: await page.evaluate(() => Number(document.activeElement?.getAttribute('aria-activedescendant')?.replace('node-', ''))),
      why: (await page.locator('[data-why]').textContent()).trim(),
      focus: await page.evaluate(() => document.activeElement?.getAttribute('role')),
    });
    const cells = () => page.$$eval('[role=treeitem]', (all) => all.map((one) => [Number(one.dataset.node), ...(one.querySelector('small')?.innerText.split('\n') ?? [])]));
    const found = { cells: await cells(), badges: await badges(page), best: await page.$$eval('[role=treeitem].best', (all) => all.map((one) => Number(one.dataset.node))), walked: [] };
    for (let i = 0; i < 120; i++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(() => document.activeElement?.getAttribute('role') === 'tree')) break;
    }
    for (const key of given.keys) {
      await page.keyboard.press(key);
      await settled(page);
      found.walked.push({ key, ...(await says()), hash: new URL(page.url()).hash });
    }
    found.cellsOpened = (await cells()).length;
    found.translation = (await page.locator('[aria-labelledby=side-target]').textContent()).trim();
    await page.goto('about:blank');
    await page.goto(`${address}/${given.force}`);
    await settled(page);
    await page.getByRole('button', { name: 'Force this token' }).click();
    await page.waitForSelector('text=Let the model choose again');
    await settled(page);
    found.forced = { hash: new URL(page.url()).hash, pieces: await page.locator('[aria-labelledby=side-target] button').allTextContents() };
    await page.getByRole('button', { name: 'Let the model choose again' }).click();
    await settled(page);
    found.unforced = new URL(page.url()).hash;
    return found;
  },

  /** What ended, ranked with each of some penalties. */
  async ranking() {
    const page = await opened({ hash: given.hash });
    const found = [];
    for (const penalty of given.penalties) {
      await page.getByRole('slider', { name: 'Length penalty' }).fill(String(penalty));
      const rows = await page.$$eval('[data-ranking] tbody tr', (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
      found.push({ rows, best: await page.$$eval('[role=treeitem].best', (all) => all.map((one) => Number(one.dataset.node))) });
    }
    return found;
  },

  /** Who is it, by the form; then the tables, verdicts and sentences on the page. */
  async who() {
    const page = await opened({ hash: given.hash });
    if (given.press) await page.getByRole('button', { name: 'Ask the model' }).click();
    await page.waitForSelector('[data-evidence], [role=alert]', { timeout: 60_000 });
    await settled(page);
    return {
      hash: new URL(page.url()).hash,
      rows: await page.$$eval('[data-kind]', (all) => all.map((row) => ({
        kind: row.dataset.kind,
        cells: [...row.querySelectorAll('[data-value]')].map((cell) => cell.firstChild.textContent.trim()),
        points: [...row.querySelectorAll('[data-value]')].map((cell) => cell.classList.contains('points')),
      }))),
      verdicts: await page.$$eval('[data-verdict]', (all) => all.map((one) => [one.dataset.verdict, one.textContent.trim()])),
      badges: await badges(page),
      error: (await page.locator('[role=alert]').allTextContents()).join(' '),
    };
  },

  /** Views one by one, each looked at by axe and for its width. */
  async barriers() {
    const seen = [];
    for (const hash of given.hashes) {
      const page = await opened({ ...given.look, hash });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      seen.push({
        hash,
        violations: violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(' | ')}`),
        beyond: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
        nodes: await page.evaluate(() => document.querySelectorAll('*').length),
        text: await page.locator('main').innerText(),
      });
      await page.context().close();
    }
    return seen;
  },

  /** How long an arrow key in the tree takes, until styles and layout stand; the best of some. */
  async treeBudget() {
    const page = await opened({ hash: given.hash, width: 1440 });
    await page.locator('[role=tree]').focus();
    const redraw = await page.evaluate(async () => {
      const times = [];
      for (let i = 0; i < 8; i++) {
        const began = performance.now();
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true, cancelable: true }));
        await Promise.resolve();
        document.body.getBoundingClientRect();
        times.push(performance.now() - began);
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      }
      return Math.min(...times);
    });
    return { redraw, nodes: await page.evaluate(() => document.querySelectorAll('*').length), steps: await page.locator('.step').count() };
  },
};

/** Tab until what has the focus is this. */
async function byTab(page, selector) {
  for (let i = 0; i < 150; i++) {
    await page.keyboard.press('Tab');
    if (await page.locator(selector).evaluateAll((all) => all.includes(document.activeElement))) return;
  }
  throw new Error(`Tab does not reach ${selector}`);
}

try {
  const found = await TASKS[task]();
  console.log(JSON.stringify({ found, troubles }));
} finally {
  await browser.close();
}
