/** How the dashboard is built: into the Python package, with names that change with the content. */

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/codehub/web/dashboard/built",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the page's policy allows no data: URLs
    modulePreload: { polyfill: false }, // … nor scripts in the page
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/w": "http://127.0.0.1:8080" } },
});
