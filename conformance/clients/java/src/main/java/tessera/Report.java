package tessera;

import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.Predicate;

/** Prints a line for each case and counts them. */
final class Report {
  private int passed;
  private int failed;

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
      System.out.println("ok " + name);
    } else {
      failed++;
      System.out.println("FAILED " + name + ": expected " + expected + ", got " + actual);
    }
  }

  /** Prints the count and ends the program, with success if nothing failed. */
  void finish() {
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 && passed > 0 ? 0 : 1);
  }
}
