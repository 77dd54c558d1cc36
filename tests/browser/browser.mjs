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
  await page.goto(`${address}/${hash}`);
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
      await page.goto(`${address}/${hash}`);
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

try {
  const found = await TASKS[task]();
  console.log(JSON.stringify({ found, troubles }));
} finally {
  await browser.close();
}
