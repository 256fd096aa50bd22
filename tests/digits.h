// Small images of ten kinds, for jobs that must learn something within seconds.
#ifndef RUBATO_TESTS_DIGITS_H_
#define RUBATO_TESTS_DIGITS_H_

#include <cstdint>
#include <string>

#include "tests/digit_pixels.h"
#include "tests/job_runner.h"

namespace rubato {

// idx files of `images` training images and 300 to validate with, and a job file of strategy
// allreduce over them; `extra` is appended. Returns the job file.
std::string WriteDigitsJob(const ScratchFolder& folder, int64_t images, const std::string& extra,
                           int contrast = kPlainContrast);

// The same from a source that can be held back (tests/paced_digits.cc), with 600 to validate with:
// while there is a file FOLDER/pace, each record that is read takes as many microseconds as it
// says; and while there is a file FOLDER/read, every read adds a line to it.
std::string WritePacedDigitsJob(const ScratchFolder& folder, int64_t images,
                                const std::string& extra, int contrast = kPlainContrast);

}  // namespace rubato

#endif  // RUBATO_TESTS_DIGITS_H_
