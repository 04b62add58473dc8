"""Tests how scripts/gpu_check reads traces, on made-up ones."""

import pytest

from command import ROOT

pytest.importorskip("torch", reason="scripts/setup.sh --tests installs it")
pytest.importorskip("torchvision", reason="scripts/setup.sh --tests installs it")


@pytest.fixture
def trace_report(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "gpu_check"))
    import trace_report

    return trace_report


def event(name, category, start, duration, thread=1):
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": duration, "pid": 9, "tid": thread}


STEP = event("train_step 8", "user_annotation", 100, 100)
BACKWARD = event("autograd::engine", "cpu_op", 150, 40, thread=2)


@pytest.mark.parametrize(("wait", "place"), [
    (event("cudaStreamSynchronize", "cuda_runtime", 120, 5), "aten::item"),
    (event("cudaStreamSynchronize", "cuda_runtime", 160, 5, thread=2), "autograd::engine"),  # in the backward pass
    (event("cudaMemcpy", "cuda_runtime", 190, 5), "outside of operators"),
    (event("cudaStreamSynchronize", "cuda_runtime", 205, 5), None),      # after the step
    (event("cudaHostAlloc", "cuda_runtime", 120, 5, thread=3), None),    # a thread of the loader
    (event("cudaMemcpyAsync", "cuda_runtime", 120, 5), None),            # does not wait
    (event("cudaStreamSynchronize", "gpu_memcpy", 120, 5), None),        # a name on the GPU's timeline
])
def test_a_wait_is_found_where_it_is_one(trace_report, wait, place):
    operators = [event("aten::to", "cpu_op", 119, 3), event("aten::item", "cpu_op", 118, 20), BACKWARD]
    waits = trace_report.host_waits([STEP, *operators, wait])
    assert [one["in"] for one in waits] == ([] if place is None else [place])


def test_kernels_are_added_up_by_name_and_family(trace_report):
    kernels = [event("conv_fprop", "kernel", 110, 30), event("conv_fprop", "kernel", 150, 50),
               event("elementwise_kernel", "kernel", 145, 20), event("Memcpy HtoD", "gpu_memcpy", 100, 7)]
    report = trace_report.summarize([STEP, *kernels, event("aten::conv2d", "cpu_op", 105, 500)])
    assert [(entry["name"], entry["microseconds"], entry["calls"]) for entry in report["top"]] == [
        ("conv_fprop", 80, 2), ("elementwise_kernel", 20, 1)]
    assert report["top"][0]["share"] == pytest.approx(0.8)
    assert {entry["family"]: (entry["microseconds"], entry["calls"]) for entry in report["families"]} == {
        "convolutions, products": (80, 2), "elementwise": (20, 1), "memcpy, memset": (7, 1)}
    assert (report["steps"], report["step_microseconds"], report["recorded"]) == (1, 100, False)
    # Of the 20 from 145 on, 15 were at the same time as the convolution that began at 150.
    assert (report["gpu_busy_microseconds"], report["gpu_span_microseconds"]) == (92, 100)
    assert "convolutions, products" in trace_report.text_of(report)


def test_a_recorded_step_has_kernels_and_no_operators(trace_report):
    steps = [STEP, STEP | {"name": "train_step 9", "ts": 300}]
    launches = [event("cudaGraphLaunch", "cuda_runtime", step["ts"] + 5, 10) for step in steps]
    kernels = [event("nvjet_sm90_tst", "kernel", step["ts"] + 20, 60, thread=7) for step in steps]
    report = trace_report.summarize([*steps, *launches, *kernels])
    assert report["recorded"] and report["host_waits"] == []
    assert report["families"] == [{"family": "convolutions, products", "microseconds": 60, "calls": 1, "share": 1}]
    waits = trace_report.summarize([*steps, *kernels, event("cudaStreamSynchronize", "cuda_runtime", 310, 5)])["host_waits"]
    assert [wait["step"] for wait in waits] == ["train_step 9"]


ATEN = "void at::native::"
OURS = "void dtrain::models::kernels::(anonymous namespace)::"


@pytest.mark.parametrize(("name", "family"), [
    ("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_kernel__5x_cudnn", "convolutions, products"),
    ("_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolution", "convolutions, products"),
    ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", "convolutions, products"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", "convolutions, products"),
    ("void cudnn::cnn::wgrad2d_grouped_direct_kernel<false, true, int>", "convolutions, products"),
    ("dgrad2d_c1_k1_nhwc_specialized", "depthwise"),
    (f"{OURS}DepthwiseGradient<__nv_bfloat16>(dtrain::models::kernels::DepthwiseArguments)", "depthwise"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", "attention"),
    ("void cudnn::fusion::convert_dq_to_16bits<true>(void const*)", "attention"),
    (f"{OURS}Sum<__nv_bfloat16, dtrain::models::kernels::ReluGradient>(dtrain::models::kernels::SumArguments)", "norms"),
    (f"{OURS}Forward<__nv_bfloat16, (dtrain::models::kernels::Activation)1, true>(...)", "norms"),
    (f"{OURS}LayerNormBackward<float>(dtrain::models::kernels::LayerNormArguments)", "norms"),
    (f"{ATEN}(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float>", "norms"),
    (f"{ATEN}batch_norm_collect_statistics_channels_last_kernel<float>", "norms"),
    (f"{OURS}Pool<__nv_bfloat16>(dtrain::models::kernels::PoolArguments)", "pooling"),
    (f"{OURS}Excite<__nv_bfloat16>(dtrain::models::kernels::ExciteArguments)", "elementwise"),
    (f"{ATEN}(anonymous namespace)::max_pool_forward_nhwc<float>", "pooling"),
    ("void dtrain::data::kernels::(anonymous namespace)::Normalise<__nv_bfloat16, (dtrain::data::kernels::Layout)1>",
     "copies, casts"),
    (f"{ATEN}vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)", "copies, casts"),
    (f"{ATEN}elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<c10::BFloat16> >",
     "elementwise"),
    (f"{ATEN}(anonymous namespace)::fused_dropout_kernel_vec<float>", "elementwise"),
    (f"{ATEN}reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16>>", "reductions"),
    (f"{ATEN}(anonymous namespace)::multi_tensor_apply_kernel<FusedSgdMath>", "optimizer"),
    (f"{ATEN}(anonymous namespace)::cunn_SoftMaxBackward<4, float>", "loss, softmax"),
    (f"{ATEN}(anonymous namespace)::compute_grad_weight<float, long>", "embedding"),
    ("Memcpy HtoD (Pinned -> Device)", "memcpy, memset"),
    ("Memset (Device)", "memcpy, memset"),
    ("a_kernel_of_tomorrow", "others"),
])
def test_a_kernel_belongs_to_a_family(trace_report, name, family):
    import families

    assert families.family_of(name) == family
