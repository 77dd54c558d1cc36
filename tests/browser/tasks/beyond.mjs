// Tasks on the explorer without its server: saved files, frames, notebooks; and the save dialog.
import { readFileSync } from 'node:fs';
import { address, at, axe, badges, browser, given, hash, heading, opened, settled, troubles, where } from '../kit.mjs';

/** Runs a notebook in JupyterLab, goes through the tour in its widget by keys, and saves the notebook. */
export async function notebook() {
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
  const translated = {};
  if (given.text) {
    await cell.locator('nav[aria-label=Steps] select').selectOption('0');
    await cell.getByLabel('Sentence', { exact: true }).fill(given.text);
    await cell.getByRole('button', { name: 'Run the model' }).click();
    await cell.locator('[data-translation]').filter({ hasText: given.translation }).waitFor({ timeout: 60_000 });
    translated.translation = await cell.locator('[data-translation]').textContent();
  }
  const cells = await page.locator('.jp-Notebook .jp-Cell').count();
  await page.evaluate(() => document.body.setAttribute('data-jp-theme-light', 'false'));
  const dark = await cell.locator('main').evaluate((main) => getComputedStyle(main.getRootNode().host).backgroundColor);
  if (given.picture) await page.screenshot({ path: given.picture });
  // The widget handles key presses, but Ctrl+S still saves the notebook.
  await cell.locator('main').first().focus();
  const saving = page.waitForResponse((answer) => answer.request().method() === 'PUT' && answer.url().includes('/api/contents/'));
  await page.keyboard.press('Control+s');
  await saving;
  return { seen, translated, cells, dark };
}

/** A page with explorers in frames: for each frame, its heading and its height. */
export async function framed() {
  const context = await browser.newContext({ reducedMotion: 'reduce', locale: 'en-GB', viewport: { width: 1280, height: 900 } });
  const requested = [];
  await context.route('**/*', (route) => {
    if (/^(data|blob):/.test(route.request().url()) || route.request().url() === address) return route.continue();
    requested.push(route.request().url());
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
  return { found, requested };
}

/** The widget in a page that imitates VS Code: a script from a Blob, a model that responds, a theme class on the body. */
export async function widget() {
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
}

/** The save dialog, opened by its key: its options at each view, and every file that it saves. */
export async function save() {
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
}
