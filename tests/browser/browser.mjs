// Runs one task in Chromium and prints what it found as JSON. Python starts the server and checks the result.
import { browser, task, troubles } from './kit.mjs';
import * as beyond from './tasks/beyond.mjs';
import * as page from './tasks/page.mjs';
import * as search from './tasks/search.mjs';
import * as whatIf from './tasks/what_if.mjs';

const TASKS = { ...page, ...beyond, ...whatIf, ...search };

try {
  const found = await TASKS[task]();
  console.log(JSON.stringify({ found, troubles }));
} finally {
  await browser.close();
}
