// Tasks on the search tree and on pronoun resolution.
import { address, badges, given, hash, opened, settled } from '../kit.mjs';

/** The search tree: the numbers of every node, navigation by keys, following a hypothesis, forcing a token. */
export async function tree() {
  const page = await opened({ hash: given.hash });
  const says = async () => ({
    node: await page.evaluate(() => Number(document.activeElement?.getAttribute('aria-activedescendant')?.replace('node-', ''))),
    why: (await page.locator('[data-why]').textContent()).trim(),
    focus: await page.evaluate(() => document.activeElement?.getAttribute('role')),
  });
  const cells = () => page.$$eval('[role=treeitem]', (all) => all.map((one) => [Number(one.dataset.node), ...(one.querySelector('small')?.innerText.split('\n') ?? [])]));
  const found = { cells: await cells(), badges: await badges(page), best: await page.$$eval('[role=treeitem].best', (all) => all.map((one) => Number(one.dataset.node))), moves: [] };
  for (let i = 0; i < 120; i++) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(() => document.activeElement?.getAttribute('role') === 'tree')) break;
  }
  for (const key of given.keys) {
    await page.keyboard.press(key);
    await settled(page);
    found.moves.push({ key, ...(await says()), hash: new URL(page.url()).hash });
  }
  found.cellsOpened = (await cells()).length;
  found.translation = (await page.locator('[aria-labelledby=side-target]').textContent()).trim();
  await page.goto('about:blank');
  await page.goto(`${address}/${given.force}`);
  await settled(page);
  await page.getByRole('button', { name: 'Force this token' }).click();
  await page.waitForSelector('text=Remove the forced prefix');
  await settled(page);
  found.forced = { hash: new URL(page.url()).hash, pieces: await page.locator('[aria-labelledby=side-target] button').allTextContents() };
  await page.getByRole('button', { name: 'Remove the forced prefix' }).click();
  await settled(page);
  found.unforced = new URL(page.url()).hash;
  return found;
}

/** The finished hypotheses, ranked with several length penalties. */
export async function ranking() {
  const page = await opened({ hash: given.hash });
  const found = [];
  for (const penalty of given.penalties) {
    await page.getByRole('slider', { name: 'Length penalty' }).fill(String(penalty));
    const rows = await page.$$eval('[data-ranking] tbody tr', (all) => all.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
    found.push({ rows, best: await page.$$eval('[role=treeitem].best', (all) => all.map((one) => Number(one.dataset.node))) });
  }
  return found;
}

/** Pronoun resolution with the form; then its table, verdicts and error messages. */
export async function pronoun() {
  const page = await opened({ hash: given.hash });
  if (given.press) await page.getByRole('button', { name: 'Resolve the pronoun' }).click();
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
}

/** The time of an arrow key in the tree, until styles and layout are done; the best of several. */
export async function treeBudget() {
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
}
