// What every tab of the attention room gets.
import type { ScreenProps } from '../props';
import type { Numbers } from './numbers';

export interface TabProps extends Pick<ScreenProps, 'exploration' | 'selection' | 'go' | 'move'> {
  numbers: Numbers;
}
