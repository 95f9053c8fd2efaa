// The director's page: its edges, the films on them, and the kernel's table. It is a separate page,
// as a director serves no films.
import { render } from "preact";
import { Edges, Totals } from "./components/edges";
import { Mark } from "./components/icons";
import { Notice } from "./components/notice";
import { Services } from "./components/services";
import { Whereabouts } from "./components/whereabouts";
import { director } from "./director-api";
import { count } from "./format";
import { useAnswered } from "./poll";

function Page() {
  const [status, isAnswering] = useAnswered(director);
  return (
    <>
      <header class="top">
        <a class="brand" href="/" aria-label="Reelway, director">
          <Mark />
          <span>Reelway</span>
        </a>
        <p class="connection" role="status">
          {!isAnswering && "Director does not answer, trying again…"}
        </p>
      </header>
      <main id="main" tabIndex={-1}>
        <div class="page">
          <h1>Director{status?.address && ` of ${status.address}`}</h1>
          {status && (
            <>
              <p class="quiet">
                {count(status.edges.length, "edge")}, reached {reached(status.method)}; viewers go to
                them by {status.scheduler}
                {status.films && `, those of films at ${status.films.addresses} by ${status.films.scheduler}`}.
              </p>
              {status.failover === "standby" && (
                <Notice kind="wait" title="Another director has the address">
                  <p>This one stands by, and takes over if that one fails.</p>
                </Notice>
              )}
              {status.failover === "fault" && (
                <Notice kind="problem" title="This director cannot take the address">
                  <p>Its network interface is down.</p>
                </Notice>
              )}
              {status.trouble && (
                <Notice kind="problem" title="The kernel's table is not as it should be">
                  <p>{status.trouble}</p>
                </Notice>
              )}
              <Totals status={status} />
              <Edges edges={status.edges} />
              <Whereabouts edges={status.edges} />
              <Services status={status} />
            </>
          )}
        </div>
      </main>
      <footer class="bottom">
        <span>Reelway</span>
        <a href="/licences.txt">Licences</a>
      </footer>
    </>
  );
}

function reached(method: string): string {
  if (method === "direct") return "directly";
  return method === "nat" ? "by NAT" : `through tunnels (${method})`;
}

const root = document.getElementById("app");
if (root) render(<Page />, root);
