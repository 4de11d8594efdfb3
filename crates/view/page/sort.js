// The worker that sorts splats for rendering in the browser.
import { sorter } from '/assets/splats.js';

sorter();
