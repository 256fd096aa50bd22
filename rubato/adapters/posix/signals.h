// SIGTERM and SIGINT as a question one can ask, instead of a surprise.
#ifndef RUBATO_ADAPTERS_POSIX_SIGNALS_H_
#define RUBATO_ADAPTERS_POSIX_SIGNALS_H_

namespace rubato {

// Installs handlers for SIGTERM and SIGINT that only count; ignores SIGPIPE and SIGXFSZ,
// whose errors are looked at where they happen. Call once, first.
void CatchStopSignals();
// How many stop signals have come so far. The second one means "now".
int StopSignals();

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_SIGNALS_H_
