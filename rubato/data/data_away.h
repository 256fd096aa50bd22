// Data that cannot be had just now, and for which its reader waits.
#ifndef RUBATO_DATA_DATA_AWAY_H_
#define RUBATO_DATA_DATA_AWAY_H_

#include <string>

#include "absl/time/time.h"

namespace rubato {

struct DataAway {
  std::string data;       // "clicks"
  std::string place;      // "the database at db.example": where it should be.
  std::string why;        // In the words of what does not answer.
  absl::Duration waited;  // So far.
};

}  // namespace rubato

#endif  // RUBATO_DATA_DATA_AWAY_H_
