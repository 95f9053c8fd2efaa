// Figures at the top of a page, each on a card.
import type { ComponentChildren } from "preact";

/** A figure's name, its value, and further information. */
export type FigureText = [name: string, value: string, more: string];

/** `children` are rendered before the figures. */
export function Figures({ label, of, children, even }: { label: string; of: FigureText[]; children?: ComponentChildren; even?: boolean }) {
  return (
    <section class={even ? "figures figures-even" : "figures"} aria-label={label}>
      {children}
      {of.map(([name, value, more]) => (
        <div key={name} class="figure">
          <h2>{name}</h2>
          <p class="figure-value">{value}</p>
          <p class="figure-more">{more || "\u00a0"}</p>
        </div>
      ))}
    </section>
  );
}
