// The pages' icons: 24x24, in the text's colour, hidden from screen readers (their buttons have
// labels).
import type { ComponentChildren } from "preact";

function icon(content: ComponentChildren) {
  return () => (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      {content}
    </svg>
  );
}

export const PlayIcon = icon(<path class="solid" d="M8 5.2v13.6L19 12z" />);
export const PauseIcon = icon(<path class="solid" d="M7 5h3.6v14H7zM13.4 5H17v14h-3.6z" />);
export const ReplayIcon = icon(<path d="M5 12a7 7 0 1 0 2.3-5.2M5 4.5V8.4h3.9" />);
export const SoundIcon = icon(<path d="M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM15.5 9a4.2 4.2 0 0 1 0 6M18 6.5a7.8 7.8 0 0 1 0 11" />);
export const MutedIcon = icon(<path d="M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM16 9.5l5 5M21 9.5l-5 5" />);
export const FullscreenIcon = icon(<path d="M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5" />);
export const LeaveFullscreenIcon = icon(<path d="M9 4v5H4M15 4v5h5M9 20v-5H4M15 20v-5h5" />);
export const SearchIcon = icon(<path d="M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.3 15.3 20 20" />);
export const CopyIcon = icon(<path d="M9 9h10v11H9zM15 9V4H5v11h4" />);
export const CheckIcon = icon(<path d="m5 12.5 4.5 4.5L19 7.5" />);
export const WarningIcon = icon(<path d="M12 4 2.8 19.5h18.4zM12 10v4.5M12 17v.1" />);
export const WaitIcon = icon(<path d="M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4.5l3 2" />);
export const FilmIcon = icon(<path d="M4 5h16v14H4zM8 5v14M16 5v14M4 9.7h4M4 14.3h4M16 9.7h4M16 14.3h4" />);
export const ViewersIcon = icon(
  <path d="M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9.3a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4z" />,
);

/** The mark of Reelway: a leader's dial with a play triangle. */
export const Mark = () => (
  <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <circle class="mark-ring" cx="16" cy="16" r="12.5" />
    <path class="mark-hand" d="M16 3.5a12.5 12.5 0 0 1 8.84 21.34" />
    <path class="mark-play" d="M12.7 10.3v11.4l9.5-5.7z" />
  </svg>
);
