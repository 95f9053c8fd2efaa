import { useEffect, useRef, useState } from "preact/hooks";
import { isRefused } from "../api";

/** The storage key of the token that was entered earlier in this tab. */
const place = "reelway.token";

type Act = (token: string) => Promise<void>;

/** Performs actions that need the token: asks for it if it is not known, and again if the server
 * rejects it. Returns a function that takes the action, and the dialog, which belongs in the
 * page. `act` handles other errors. */
export function useToken(purpose: string) {
  const [waiting, setWaiting] = useState<Act | null>(null);
  const [error, setError] = useState<string | null>(null);

  async function attempt(act: Act, token: string) {
    try {
      await act(token);
      sessionStorage.setItem(place, token);
      setWaiting(null);
    } catch (cause) {
      if (!isRefused(cause)) throw cause;
      sessionStorage.removeItem(place);
      setError(cause.message);
      setWaiting(() => act);
    }
  }

  const withToken = (act: Act) => {
    setError(null);
    const token = sessionStorage.getItem(place);
    if (token) void attempt(act, token);
    else setWaiting(() => act);
  };
  const dialog = waiting && (
    <TokenDialog
      key={error}
      purpose={purpose}
      error={error}
      onToken={(token) => void attempt(waiting, token)}
      onCancel={() => setWaiting(null)}
    />
  );
  return [withToken, dialog] as const;
}

interface TokenDialogProps {
  /** The purpose of the token: `end this session`. */
  purpose: string;
  /** The server's response to the last token. */
  error: string | null;
  onToken(token: string): void;
  onCancel(): void;
}

/** Asks for the token that changes require. */
function TokenDialog({ purpose, error, onToken, onCancel }: TokenDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [token, setToken] = useState("");
  useEffect(() => {
    dialog.current?.showModal();
    return () => dialog.current?.close();
  }, []);

  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="token-title" onCancel={onCancel}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (token.trim()) onToken(token.trim());
        }}
      >
        <h2 id="token-title">The server's token is needed to {purpose}</h2>
        <p>
          It is in the file <code>token</code> in the server's state directory. This tab remembers it until it is closed.
        </p>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={token}
          aria-invalid={error !== null}
          aria-describedby="token-error"
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <p id="token-error" class="field-error" role="alert">
          {error}
        </p>
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={onCancel}>
            Cancel
          </button>
          <button type="submit" class="button button-main" disabled={!token.trim()}>
            Go on
          </button>
        </div>
      </form>
    </dialog>
  );
}
