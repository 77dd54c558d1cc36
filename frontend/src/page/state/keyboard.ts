// Meaning of key presses, as pure functions.

export interface Cell {
  row: number;
  col: number;
}

/** The cell that a key moves to in a grid of `rows` × `cols`; null for other keys. */
export function nextCell(key: string, ctrl: boolean, cell: Cell, rows: number, cols: number): Cell | null {
  const within = (row: number, col: number) => ({
    row: Math.max(0, Math.min(rows - 1, row)),
    col: Math.max(0, Math.min(cols - 1, col)),
  });
  switch (key) {
    case 'ArrowUp':
      return within(cell.row - 1, cell.col);
    case 'ArrowDown':
      return within(cell.row + 1, cell.col);
    case 'ArrowLeft':
      return within(cell.row, cell.col - 1);
    case 'ArrowRight':
      return within(cell.row, cell.col + 1);
    case 'Home':
      return within(ctrl ? 0 : cell.row, 0);
    case 'End':
      return within(ctrl ? rows - 1 : cell.row, cols - 1);
    default:
      return null;
  }
}

export type GridAction = 'layer up' | 'layer down' | 'head before' | 'head after' | 'open';

const GRID: Record<string, GridAction> = {
  PageUp: 'layer up',
  PageDown: 'layer down',
  '[': 'head before',
  ']': 'head after',
  Enter: 'open',
};

export function gridAction(key: string): GridAction | null {
  return GRID[key] ?? null;
}

export type PageAction = 'next' | 'previous' | 'save' | 'keys' | 'close';

const PAGE: Record<string, PageAction> = { n: 'next', p: 'previous', s: 'save', '?': 'keys' };

/** Single letters are shortcuts, except in text fields and together with Ctrl, Alt or Meta. */
export function pageAction(
  event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'altKey' | 'metaKey'>,
  typing: boolean,
): PageAction | null {
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return null;
  return PAGE[event.key] ?? null;
}

export function isTyping(target: EventTarget | null): boolean {
  const element = target as { tagName?: string; isContentEditable?: boolean } | null;
  return element?.isContentEditable === true || ['INPUT', 'TEXTAREA', 'SELECT'].includes(element?.tagName ?? '');
}
