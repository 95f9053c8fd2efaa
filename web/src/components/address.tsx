import { useEffect, useState } from "preact/hooks";
import { CheckIcon, CopyIcon } from "./icons";

/** Copies text; if the browser restricts its clipboard to https pages, by means of a selection. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "visually-hidden";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

interface AddressProps {
  name: string;
  hint: string;
  address: string | null;
  /** The reason why there is no address. */
  why: string | null;
}

/** One of a film's addresses with a button that copies it, or the reason why there is none. */
export function Address({ name, hint, address, why }: AddressProps) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(""), 2500);
    return () => clearTimeout(timer);
  }, [said]);

  return (
    <div class="address">
      <dt>
        <span class="address-name">{name}</span> <span class="address-hint">{hint}</span>
      </dt>
      <dd>
        {address && !why ? (
          <>
            <code>{address}</code>
            <button
              type="button"
              class="button-quiet"
              aria-label={`Copy the ${name} address`}
              title="Copy"
              onClick={async (event) => {
                const button = event.currentTarget;
                setSaid((await copy(address)) ? "Copied" : "Could not copy");
                button.focus(); // copying by selection moves the focus
              }}
            >
              {said === "Copied" ? <CheckIcon /> : <CopyIcon />}
            </button>
          </>
        ) : (
          <span class="address-why">Not over {name}: {why ?? "the server has it switched off"}</span>
        )}
        <span class="visually-hidden" role="status">
          {said}
        </span>
      </dd>
    </div>
  );
}
