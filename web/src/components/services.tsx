// The kernel's current table: a section for each service, a row for each edge.
import type { Director, Service } from "../director-api";
import { size } from "../format";

export function Services({ status }: { status: Director }) {
  return (
    <section aria-labelledby="services">
      <h2 id="services">The kernel's table</h2>
      <div class="services">
        {status.services.map((service) => (
          <Part key={service.mark} service={service} />
        ))}
      </div>
    </section>
  );
}

function Part({ service }: { service: Service }) {
  const of = service.of.charAt(0).toUpperCase() + service.of.slice(1);
  const name = `${of}: ${service.scheduler}${service.persistence ? `, viewers stay for ${service.persistence} s` : ""}`;
  return (
    <div class="devices" role="region" aria-label={name} tabIndex={0}>
      <table>
        <caption>{name}</caption>
        <thead>
          <tr>
            <th scope="col">Edge</th>
            <th scope="col" class="number">
              Weight
            </th>
            <th scope="col" class="number">
              Open
            </th>
            <th scope="col" class="number">
              Ending
            </th>
            <th scope="col" class="number">
              Since the start
            </th>
            <th scope="col" class="number">
              From viewers
            </th>
            <th scope="col" class="number">
              Back
            </th>
          </tr>
        </thead>
        <tbody>
          {service.destinations.map((one) => (
            <tr key={one.address}>
              <th scope="row">{one.address}</th>
              <td class="number">{one.weight}</td>
              <td class="number">{one.active}</td>
              <td class="number">{one.inactive}</td>
              <td class="number">{one.connections}</td>
              <td class="number">{size(one.bytes_in)}</td>
              <td class="number">{size(one.bytes_out)}</td>
            </tr>
          ))}
          {service.destinations.length === 0 && (
            <tr>
              <td colSpan={7} class="quiet">
                No edge
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}
