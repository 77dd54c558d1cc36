// Whether letters alone are shortcuts, remembered where the browser lets a page remember.

export function lettersWanted(): boolean {
  try {
    return localStorage.getItem('letters') !== 'off';
  } catch {
    return true; // a page in a closed frame has no memory
  }
}

export function rememberLetters(wanted: boolean): void {
  try {
    localStorage.setItem('letters', wanted ? 'on' : 'off');
  } catch {
    // then it holds until the page is closed
  }
}
