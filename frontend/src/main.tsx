/** The dashboard begins here. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { apply } from "./lib/theme.ts";
import { takeProof } from "./ui/proof.tsx";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/screens.css";

apply();
takeProof();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
