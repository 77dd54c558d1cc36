// What every tab of the attention room gets.
import type { ScreenProps } from '../props';
import type { Numbers } from './numbers';

export interface TabProps extends Pick<ScreenProps, 'exploration' | 'selection' | 'go' | 'move' | 'other'> {
  numbers: Numbers;
  /** The same before the changes, where the difference is wanted and can be taken. */
  before: Numbers | null;
}
