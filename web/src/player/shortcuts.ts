// The player's keys, as in other players. Pure: a key is mapped to an action, which the player
// performs.

export type Action =
  | { do: "toggle" }
  | { do: "skip"; seconds: number }
  | { do: "jump"; share: number } // fraction of the film's length
  | { do: "step"; pictures: 1 | -1 }
  | { do: "volume"; by: number }
  | { do: "faster" }
  | { do: "slower" }
  | { do: "mute" }
  | { do: "chapter"; by: 1 | -1 }
  | { do: "subtitles" }
  | { do: "fullscreen" };

/** The help text on the page. */
export const help: readonly (readonly [keys: string, what: string])[] = [
  ["Space or K", "play, pause"],
  ["← →", "5 s back, forward"],
  ["J L", "10 s back, forward"],
  [", .", "one frame back, forward (paused)"],
  ["0 … 9", "to a tenth of the film"],
  ["P N", "previous, next chapter"],
  ["↑ ↓", "louder, softer"],
  ["M", "sound off, on"],
  ["C", "next subtitles, off"],
  ["< >", "slower, faster"],
  ["F", "full screen"],
];

/** The action of a key, or null if it has none. */
export function action(key: string): Action | null {
  if (/^[0-9]$/.test(key)) return { do: "jump", share: Number(key) / 10 };
  switch (key.length === 1 ? key.toLowerCase() : key) {
    case " ":
    case "k":
      return { do: "toggle" };
    case "ArrowLeft":
      return { do: "skip", seconds: -5 };
    case "ArrowRight":
      return { do: "skip", seconds: 5 };
    case "j":
      return { do: "skip", seconds: -10 };
    case "l":
      return { do: "skip", seconds: 10 };
    case "Home":
      return { do: "jump", share: 0 };
    case ",":
      return { do: "step", pictures: -1 };
    case ".":
      return { do: "step", pictures: 1 };
    case "ArrowUp":
      return { do: "volume", by: 0.1 };
    case "ArrowDown":
      return { do: "volume", by: -0.1 };
    case "p":
      return { do: "chapter", by: -1 };
    case "n":
      return { do: "chapter", by: 1 };
    case "c":
      return { do: "subtitles" };
    case "m":
      return { do: "mute" };
    case ">":
      return { do: "faster" };
    case "<":
      return { do: "slower" };
    case "f":
      return { do: "fullscreen" };
    default:
      return null;
  }
}

export const speeds: readonly number[] = [0.5, 0.75, 1, 1.25, 1.5, 2];

/** The next speed up or down from `current`. */
export function nextSpeed(current: number, direction: 1 | -1): number {
  const candidates = speeds.filter((speed) => (direction > 0 ? speed > current : speed < current));
  return (direction > 0 ? candidates[0] : candidates.at(-1)) ?? current;
}

/** Whether a key pressed in `target` belongs to that element: letters in fields, arrows in
 * sliders. */
export function isOwnKey(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest("dialog, textarea, select, input:not([type=range])")) return true;
  if (target.matches("input[type=range]")) return key.startsWith("Arrow") || ["Home", "End", "PageUp", "PageDown"].includes(key);
  // Elements that scroll when they have the focus.
  if (target.matches("[tabindex='0']:not(button, a, summary)") && (key.startsWith("Arrow") || ["Home", "End", " "].includes(key))) return true;
  return key === " " && target.matches("button, a, summary");
}
