import { useEffect, useRef, useState } from "preact/hooks";

const place = "reelway.token";

/** The token given earlier in this tab, or null. */
export const knownToken = () => sessionStorage.getItem(place);
export const rememberToken = (token: string) => sessionStorage.setItem(place, token);
export const forgetToken = () => sessionStorage.removeItem(place);

interface TokenDialogProps {
  /** What the token is wanted for: `end this session`. */
  purpose: string;
  /** What the server said to the last one. */
  error: string | null;
  onToken(token: string): void;
  onCancel(): void;
}

/** Asks for the token that changes want. */
export function TokenDialog({ purpose, error, onToken, onCancel }: TokenDialogProps) {
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
          It is in the file <code>token</code> in the server's state directory, or set as <code>api_token</code> in its
          configuration. This tab remembers it until it is closed.
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
