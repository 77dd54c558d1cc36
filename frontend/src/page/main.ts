import { mount } from 'svelte';
import App from './App.svelte';
import { adoptTheme } from './theme/theme.svelte';
import './theme/page.css';

adoptTheme();
mount(App, { target: document.getElementById('page') as HTMLElement });
