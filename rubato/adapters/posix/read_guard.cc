#include "rubato/adapters/posix/read_guard.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"

namespace rubato {

// A list that only grows, so that a signal handler may walk it at any moment; places are used
// again.
struct ReadGuard::Place {
  std::atomic<bool> taken = true;
  std::atomic<const char*> begin = nullptr;  // Null: none.
  std::atomic<size_t> size = 0;
  std::string words;
  Place* next = nullptr;
};

namespace {

void Write(const char* text, size_t size) {
  if (write(STDERR_FILENO, text, size) < 0) return;  // There is nobody else to tell.
}

std::atomic<void*> all_places = nullptr;
struct sigaction heard_before;

}  // namespace

void ReadGuard::Touched(int signal, void* at) {
  const char* const byte = static_cast<const char*>(at);
  for (auto* place = static_cast<Place*>(all_places.load()); place != nullptr;
       place = place->next) {
    const char* const begin = place->begin.load();
    if (begin == nullptr || byte < begin || byte >= begin + place->size.load()) continue;
    char number[24];
    const char* const end = std::to_chars(number, number + sizeof(number), byte - begin).ptr;
    Write(place->words.data(), place->words.size());
    Write(number, static_cast<size_t>(end - number));
    constexpr char kWhy[] = " cannot be read: the disk failed, or the file was cut (SIGBUS)\n";
    Write(kWhy, sizeof(kWhy) - 1);
    _exit(kExitCode);
  }
  sigaction(signal, &heard_before, nullptr);  // Not ours: again, and as it would have been.
}

void ReadGuard::Hear() {
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int signal, siginfo_t* info, void*) { Touched(signal, info->si_addr); };
  sigaction(SIGBUS, &action, &heard_before);
}

ReadGuard::ReadGuard(const std::string& path, absl::string_view bytes) {
  static std::once_flag once;
  std::call_once(once, Hear);
  for (auto* place = static_cast<Place*>(all_places.load()); place != nullptr;
       place = place->next) {
    if (place->taken.exchange(true)) continue;
    place_ = place;
    break;
  }
  const bool is_new = place_ == nullptr;
  if (is_new) place_ = new Place;
  place_->words = absl::StrCat("rubato: ", path, ": byte ");
  place_->size = bytes.size();
  place_->begin = bytes.data();
  if (!is_new) return;
  void* head = all_places.load();
  do {
    place_->next = static_cast<Place*>(head);
  } while (!all_places.compare_exchange_weak(head, place_));
}

ReadGuard::~ReadGuard() {
  if (place_ == nullptr) return;
  place_->begin = nullptr;
  place_->taken = false;
}

}  // namespace rubato
