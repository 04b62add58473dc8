#include "trainer/distributed/gathered_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace dtrain::distributed {
namespace {

struct GatherFunction : torch::autograd::Function<GatherFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& rows,
                            Communicator* communicator) {
    context->saved_data["communicator"] = reinterpret_cast<int64_t>(communicator);
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[0] *= communicator->world_size();
    at::Tensor all = at::empty(shape, rows.options());
    communicator->Gather(rows.contiguous(), all);
    return all;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto& communicator = *reinterpret_cast<Communicator*>(context->saved_data["communicator"].toInt());
    at::Tensor all = gradients[0].clone(at::MemoryFormat::Contiguous);
    communicator.Sum(all);
    const int64_t rows = all.size(0) / communicator.world_size(), first = communicator.rank() * rows;
    return {all.slice(0, first, first + rows), {}};
  }
};

}  // namespace

at::Tensor GatheredRows(const at::Tensor& rows, Communicator& communicator) {
  return communicator.is_alone() ? rows : GatherFunction::apply(rows, &communicator);
}

}  // namespace dtrain::distributed
