import type { ComponentChildren } from "preact";
import { WaitIcon, WarningIcon } from "./icons";

interface NoticeProps {
  kind: "problem" | "wait" | "quiet";
  title: string;
  children?: ComponentChildren;
}

/** A message in place of content: the problem, and what to do about it. */
export function Notice({ kind, title, children }: NoticeProps) {
  return (
    <div class={`notice notice-${kind}`} role={kind === "problem" ? "alert" : "status"}>
      {kind === "problem" ? <WarningIcon /> : kind === "wait" ? <WaitIcon /> : null}
      <div>
        <p class="notice-title">{title}</p>
        {children}
      </div>
    </div>
  );
}
