package tessera;

import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.Predicate;

/** Prints a line of JSON for each case; the runner, tessera-conformance run, reads them. */
final class Report {
  private int passed;
  private int failed;
  private String area = "walk";
  private long since = System.nanoTime();

  /** The area of the cases that follow. */
  void area(String name) {
    area = name;
  }

  /** Does something and compares what comes of it with what should. */
  void check(String name, Object expected, Callable<?> action) {
    Object actual;
    try {
      actual = action.call();
    } catch (Exception error) {
      actual = error;
    }
    verdict(name, Objects.equals(expected, actual), expected, actual);
  }

  /** Does something that must be refused in the expected way. */
  void refused(String name, Predicate<Exception> asExpected, Callable<?> action) {
    try {
      verdict(name, false, "a refusal", action.call());
    } catch (Exception error) {
      verdict(name, asExpected.test(error), "another refusal", error);
    }
  }

  private void verdict(String name, boolean holds, Object expected, Object actual) {
    if (holds) {
      passed++;
      tell(name, "passed", "");
    } else {
      failed++;
      tell(name, "failed", "expected " + expected + ", got " + actual);
    }
  }

  /** Prints a case, whose time began with the end of the case before it. */
  private void tell(String name, String outcome, String message) {
    long now = System.nanoTime();
    System.out.printf(
        Locale.ROOT,
        "{\"area\":%s,\"case\":%s,\"outcome\":%s,\"ms\":%.3f,\"message\":%s}%n",
        quoted(area),
        quoted(name),
        quoted(outcome),
        (now - since) / 1e6,
        quoted(message));
    since = now;
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char one : text.toCharArray()) {
      if (one == '"' || one == '\\') {
        quoted.append('\\').append(one);
      } else if (one < ' ') {
        quoted.append(String.format("\\u%04x", (int) one));
      } else {
        quoted.append(one);
      }
    }
    return quoted.append('"').toString();
  }

  /** Ends the program, with success if nothing failed. */
  void finish() {
    System.exit(failed == 0 && passed > 0 ? 0 : 1);
  }
}
