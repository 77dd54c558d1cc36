// Whether single letters are shortcuts, stored in localStorage where that is allowed.

export function shortcutsEnabled(): boolean {
  try {
    return localStorage.getItem('letters') !== 'off';
  } catch {
    return true; // no localStorage in a sandboxed frame
  }
}

export function saveShortcutSetting(enabled: boolean): void {
  try {
    localStorage.setItem('letters', enabled ? 'on' : 'off');
  } catch {
    // then it is kept until the page is closed
  }
}
