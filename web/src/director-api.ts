// The director's API (docs/reference/director.md): its types, and its only call.

export interface Without {
  viewers: number;
  booked: number | null; // bytes per second
  room: number | null; // bytes per second
  fits: boolean | null;
  films: string[];
}

export interface EdgeFilm {
  title: string;
  held: number; // bytes in memory
  size: number;
  viewers: number;
}

export interface EdgeReport {
  name: string;
  sessions: number;
  rate: number; // bits per second
  sent: number;
  from_origins: number;
  from_siblings: number;
  hit_ratio: number | null;
  films: EdgeFilm[];
}

export interface Edge {
  address: string;
  url: string;
  state: "up" | "returning" | "slow" | "drained" | "down";
  trouble: string | null;
  weight: number;
  capacity: { total: number; free: number } | null; // bytes per second
  report: EdgeReport | null;
  without: Without | null;
}

export interface Destination {
  address: string;
  weight: number;
  active: number;
  inactive: number;
  persistent: number;
  connections: number;
  bytes_in: number;
  bytes_out: number;
}

export interface Service {
  mark: number;
  of: string;
  scheduler: string;
  persistence: number | null; // seconds
  connections: number;
  bytes_in: number;
  bytes_out: number;
  destinations: Destination[];
}

export interface Director {
  address: string | null;
  method: string;
  scheduler: string;
  films: { addresses: string; scheduler: string } | null;
  failover: "active" | "standby" | "fault" | null;
  trouble: string | null;
  edges: Edge[];
  services: Service[];
}

export async function director(signal: AbortSignal): Promise<Director> {
  const answer = await fetch("/api/director", { signal });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}
