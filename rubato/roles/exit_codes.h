// How the roles end, as the supervisor and the master read it.
#ifndef RUBATO_ROLES_EXIT_CODES_H_
#define RUBATO_ROLES_EXIT_CODES_H_

namespace rubato {

constexpr int kRoleDone = 0;       // Left as told.
constexpr int kRoleFailed = 1;     // The last line of the log says why.
constexpr int kRoleBadInput = 2;   // Starting it again would say the same.
constexpr int kRoleFenced = 4;     // Woke up to find itself replaced.
constexpr int kRoleStopped = 130;  // By hand and without a master: asked to end before it was done.

}  // namespace rubato

#endif  // RUBATO_ROLES_EXIT_CODES_H_
