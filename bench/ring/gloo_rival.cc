// Gloo's allreduce algorithms, as a yardstick.
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

#include "bench/ring/fleet.h"
#include "bench/ring/rivals.h"

namespace rubato {

std::vector<double> RunGloo(const std::string& algorithm, const Place& place, int64_t elements) {
  gloo::transport::tcp::attr attr;
  attr.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attr);
  auto store = std::make_shared<gloo::rendezvous::FileStore>(place.meeting);
  auto context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.size);
  context->connectFullMesh(*store, device);
  std::vector<float> values(elements, 1.0f);
  const std::vector<float*> pointers = {values.data()};
  const int count = static_cast<int>(elements);
  std::unique_ptr<gloo::Algorithm> reduce;
  if (algorithm == "ring") {
    reduce = std::make_unique<gloo::AllreduceRing<float>>(context, pointers, count);
  } else if (algorithm == "ring_chunked") {
    reduce = std::make_unique<gloo::AllreduceRingChunked<float>>(context, pointers, count);
  } else if (algorithm == "halving_doubling") {
    reduce = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, pointers, count);
  } else {
    reduce = std::make_unique<gloo::AllreduceBcube<float>>(context, pointers, count);
  }
  std::vector<double> micros;
  for (int i = 0; i < place.runs + 2; ++i) {
    const int64_t begin = NowNanos();
    reduce->run();
    if (i >= 2) micros.push_back(static_cast<double>(NowNanos() - begin) / 1000);
  }
  // Whoever closes its connections first would end the others with an exception.
  gloo::BarrierOptions together(context);
  gloo::barrier(together);
  return micros;
}

}  // namespace rubato
