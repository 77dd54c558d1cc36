// The numbers of a screen, as JSON and as CSV.
import { keyLabel, queryLabel, tokensOf } from '../data/places';
import { grid, joined, part, type Grid, type Tensor } from '../data/tensor';
import type { Exploration } from '../data/trace';
import { selectedPlace } from '../state/validSelection';
import type { Selection } from '../state/selection';

/** A table with row and column names. */
export interface Table {
  name: string;
  rows: string[];
  columns: string[];
  values: (number | string | null)[][];
}

export async function numbersOfScreen(
  exploration: Exploration,
  selection: Selection,
  page: ParentNode,
): Promise<Table[]> {
  switch (selection.v) {
    case 'sentence':
      return [probabilities(exploration)];
    case 'attention':
      return attention(exploration, selection);
    case 'tokens':
      return tokens(exploration, selection);
    case 'memory':
      return memoryTables(exploration);
    default:
      return [...page.querySelectorAll('table')].map(tableOf);
  }
}

function probabilities({ manifest }: Exploration): Table {
  return {
    name: 'log_probability',
    rows: manifest.target.pieces,
    columns: ['log_probability'],
    values: manifest.log_probabilities.map((one) => [one]),
  };
}

async function attention(exploration: Exploration, selection: Selection): Promise<Table[]> {
  const place = selectedPlace(exploration, selection);
  if (place === null) return [];
  const rows = tokensOf(exploration, place.queries).map(queryLabel);
  const columns = tokensOf(exploration, place.keys).map(keyLabel);
  const oneHead = selection.tab === 'token' || selection.tab === 'matrix';
  const tables: Table[] = [];
  for (const what of ['scores', 'weights']) {
    const [tensor] = await exploration.several(`${place.name}.${what}`);
    const heads = oneHead ? [selection.h] : [...Array(tensor?.shape[0] ?? 0).keys()];
    if (tensor)
      tables.push(
        ...heads.map((h) => ({
          name: `${place.name}.${what}[${h}]`,
          rows,
          columns,
          values: lines(grid(part(tensor, h))),
        })),
      );
  }
  return tables;
}

async function tokens(exploration: Exploration, selection: Selection): Promise<Table[]> {
  const side = selectedPlace(exploration, selection)?.queries ?? 'source';
  const stack = side === 'source' ? 'encoder' : 'decoder';
  const names = [`${stack}.embedding.output`, `${stack}.position.output`, `${stack}.input`];
  const tensors = await exploration.several(...names);
  const rows = exploration.inputs(side);
  return tensors.flatMap((tensor, i) => (tensor === null ? [] : [wide(names[i] as string, rows, grid(tensor))]));
}

async function memoryTables(exploration: Exploration): Promise<Table[]> {
  const rows = exploration.inputs('source');
  const names = exploration.places
    .filter((place) => place.kind === 'cross')
    .flatMap(({ name }) => [`${name}.k`, `${name}.v`]);
  const [memory, ...others] = (await exploration.several('memory', ...names)) as [Tensor | null, ...(Tensor | null)[]];
  const made = others.flatMap((tensor, i) => (tensor === null ? [] : [wide(names[i] as string, rows, joined(tensor))]));
  return memory === null ? made : [wide('memory', rows, grid(memory)), ...made];
}

const wide = (name: string, rows: string[], of: Grid): Table => ({
  name,
  rows,
  columns: [...Array(of.cols).keys()].map(String),
  values: lines(of),
});

/** With the digits that float32 has; null for masked cells. */
function lines(of: Grid): (number | null)[][] {
  const exact = (x: number) => (Number.isFinite(x) ? Number(x.toPrecision(8)) : null);
  return Array.from({ length: of.rows }, (_, r) =>
    Array.from(of.values.subarray(r * of.cols, (r + 1) * of.cols), exact),
  );
}

/** A table of the page, as displayed. */
function tableOf(table: HTMLTableElement, index: number): Table {
  const text = (cell: Element) => cell.textContent?.trim() ?? '';
  const body = [...table.querySelectorAll('tbody tr')].map((row) => [...row.children].map(text));
  return {
    name: table.caption?.textContent?.trim() || `table ${index + 1}`,
    rows: body.map(([first = '']) => first),
    columns: [...table.querySelectorAll('thead th')].slice(1).map(text),
    values: body.map(([, ...rest]) => rest),
  };
}

const quoted = (field: string) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
/** Spreadsheets take text that begins like this for a formula, and a token may be anything. */
const escaped = (field: string) => (/^[=+\-@\t\r]/.test(field) && !/^[-+]?[\d.]/.test(field) ? `'${field}` : field);

/** One line per number: table, row, column, value. */
export function asCsv(tables: Table[]): string {
  const out = ['table,row,row_name,column,column_name,value'];
  for (const { name, rows, columns, values } of tables) {
    values.forEach((line, r) =>
      line.forEach((value, c) => {
        const fields = [
          name,
          String(r),
          rows[r] ?? '',
          String(c),
          columns[c] ?? '',
          value === null ? '' : String(value),
        ];
        out.push(fields.map((field) => quoted(escaped(field))).join(','));
      }),
    );
  }
  return `${out.join('\r\n')}\r\n`;
}

export function asJson(caption: Record<string, unknown>, tables: Table[]): string {
  return `${JSON.stringify({ ...caption, tables }, null, 1)}\n`;
}
