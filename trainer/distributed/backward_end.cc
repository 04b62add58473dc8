// Autograd's engine calls the callbacks that were queued during a pass at its end, in the order of queueing. The
// reducer queues its wait with its last bucket; a hook on the loss runs at the start of the pass, so it queues earlier.
#include "trainer/distributed/backward_end.h"

#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace dtrain::distributed {

void AfterLastGradient(const at::Tensor& loss, std::function<void()> then) {
  loss.register_hook([then = std::move(then)](const at::Tensor&) {
    torch::autograd::Engine::get_default_engine().queue_callback(then);
  });
}

}  // namespace dtrain::distributed
