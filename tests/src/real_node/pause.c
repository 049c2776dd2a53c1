/* The program of placeholders and of the sandboxes of pods: waits for a signal to end. */
#include <signal.h>
#include <unistd.h>

static void end(int number) { _exit(number == SIGTERM || number == SIGINT ? 0 : 1); }

int main(void) {
  signal(SIGTERM, end);
  signal(SIGINT, end);
  for (;;) pause();
}
