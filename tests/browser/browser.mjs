// Drives the page in a real Chromium and says in JSON what it saw. Python starts the server and judges.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

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
const badges = (page) => page.$$eval('[data-difference]', (all) => all.map((one) => Number(one.dataset.difference)));

const TASKS = {
  /** What tables say, at addresses that are given. */
  async read() {
    const page = await opened();
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
      const before = page.url();
      await page.keyboard.press('n');
      if (page.url() === before) break;
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
      heard[`${key} at`] = new URL(page.url()).hash;
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
    const seen = async () => [await heading(page), await page.locator('[data-way] tbody').first().innerText(), new URL(page.url()).hash];
    const first = await seen();
    await page.reload();
    await settled(page);
    const again = await seen();
    await page.getByRole('tab', { name: 'Heads' }).click();
    const away = new URL(page.url()).hash;
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
    const hash = new URL(page.url()).hash;
    await page.goto(`${address}/#v=bridge`);
    await settled(page);
    await page.getByRole('button', { name: given.button }).click();
    const instead = await page.locator('[data-instead]').textContent();
    await page.goto(`${address}/#v=sentence&s=${encodeURIComponent('word '.repeat(400))}`);
    const error = await page.locator('[role=alert]').textContent();
    return { hash, instead, error };
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
};

try {
  const found = await TASKS[task]();
  console.log(JSON.stringify({ found, troubles }));
} finally {
  await browser.close();
}
