/** The points of a sparkline in a box of `width` by `height`, newest at the right; pure. */
export function points(values: readonly number[], room: number, width: number, height: number): string {
  const top = Math.max(...values, 1e-9);
  const step = width / (room - 1);
  return values
    .map((value, i) => {
      const x = width - (values.length - 1 - i) * step;
      const y = height - (value / top) * (height - 2) - 1;
      return `${Number(x.toFixed(1))},${Number(y.toFixed(1))}`;
    })
    .join(" ");
}

interface SparklineProps {
  values: readonly number[];
  /** The number of values that fill the width. */
  room: number;
  /** A description for people who cannot see it. */
  label: string;
}

const width = 240;
const height = 40;

/** A small chart of the recent values of a number. */
export function Sparkline({ values, room, label }: SparklineProps) {
  const line = points(values, room, width, height);
  const first = line.split(",", 1)[0];
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {values.length > 1 && (
        <>
          <polygon class="sparkline-area" points={`${first},${height} ${line} ${width},${height}`} />
          <polyline class="sparkline-line" points={line} />
        </>
      )}
    </svg>
  );
}
