import java.time.Instant;
import java.util.ArrayList;
import java.util.concurrent.atomic.AtomicLong;

/** The clocks of Java, in many threads and through the compiler's tiers. */
public class Clock {
    static final AtomicLong latest = new AtomicLong(System.nanoTime());
    static volatile String failure;

    static void read() {
        long lastMillis = 0;
        for (int i = 0; i < 2_000_000 && failure == null; i++) {
            long seen = latest.get();
            long now = System.nanoTime();
            if (now < seen) {
                failure = now + " after " + seen;
            }
            latest.accumulateAndGet(now, Math::max);
            long millis = System.currentTimeMillis();
            if (millis < lastMillis) {
                failure = millis + " ms after " + lastMillis;
            }
            lastMillis = millis;
        }
    }

    public static void main(String[] arguments) throws Exception {
        var threads = new ArrayList<Thread>();
        for (int i = 0; i < 4; i++) {
            var thread = new Thread(Clock::read);
            thread.start();
            threads.add(thread);
        }
        for (var thread : threads) {
            thread.join();
        }
        long begin = System.nanoTime();
        Thread.sleep(200);
        long slept = System.nanoTime() - begin;
        if (slept < 200_000_000L || slept > 5_000_000_000L) {
            failure = "slept " + slept + " ns";
        }
        long apart = Instant.now().toEpochMilli() - Long.parseLong(arguments[0]);
        if (Math.abs(apart) > 600_000) {
            failure = "real time is " + apart + " ms off";
        }
        // A null pointer is a fault that the virtual machine handles itself.
        try {
            Object nothing = arguments.length > 99 ? "" : null;
            System.out.println(nothing.hashCode());
            failure = "no exception";
        } catch (NullPointerException expected) {
        }
        if (failure != null) {
            System.err.println(failure);
            System.exit(1);
        }
        System.out.println("java: ok");
    }
}
