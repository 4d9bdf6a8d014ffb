"""What LLVM calls where an x86 CPU has no such instruction (before F16C and FMA: about 2013, some laptops 2020).

A compiler's run-time library would define these functions, but kernels link to nothing but memcpy and memset of the
C library: without a definition of our own the call would go to address 0. The names and conventions are LLVM's.
"""

LIBCALLS = """
define float @__extendhfsf2(half %x) {  ; exact
  %h = bitcast half %x to i16
  %w = zext i16 %h to i32
  %unsigned = and i32 %w, 32767
  %shifted = shl i32 %unsigned, 13
  %f = bitcast i32 %shifted to float
  %scaled = fmul float %f, 0x46F0000000000000  ; 2^112: the exponents' biases differ by 127 - 15
  %finite = bitcast float %scaled to i32
  %special = or i32 %shifted, 2139095040
  %is_special = icmp uge i32 %shifted, 260046848  ; 0x7c00 << 13: Inf and NaN
  %magnitude = select i1 %is_special, i32 %special, i32 %finite
  %sign = and i32 %w, 32768
  %high = shl i32 %sign, 16
  %bits = or i32 %magnitude, %high
  %result = bitcast i32 %bits to float
  ret float %result
}

define half @__truncsfhf2(float %x) {  ; rounds to nearest, ties to even
  %w = bitcast float %x to i32
  %a = and i32 %w, 2147483647
  %odd = lshr i32 %a, 13
  %tie = and i32 %odd, 1
  %up = add i32 %tie, 4095
  %rounded = add i32 %a, %up
  %cut = lshr i32 %rounded, 13
  %normal = sub i32 %cut, 114688  ; (127 - 15) << 10
  %f = bitcast i32 %a to float
  %aligned = fadd float %f, 0.5  ; whose last bit is 2^-24, that of a denormal half
  %aligned_bits = bitcast float %aligned to i32
  %denormal = sub i32 %aligned_bits, 1056964608
  %is_denormal = icmp ult i32 %a, 947912704  ; 2^-14
  %finite = select i1 %is_denormal, i32 %denormal, i32 %normal
  %is_nan = icmp ugt i32 %a, 2139095040
  %special = select i1 %is_nan, i32 32256, i32 31744
  %is_special = icmp uge i32 %a, 1199570944  ; 65536
  %magnitude = select i1 %is_special, i32 %special, i32 %finite
  %high = lshr i32 %w, 16
  %sign = and i32 %high, 32768
  %bits = or i32 %magnitude, %sign
  %h = trunc i32 %bits to i16
  %result = bitcast i16 %h to half
  ret half %result
}

define float @fmaf(float %x, float %y, float %z) {  ; the exact product, but the sum is rounded twice
  %xd = fpext float %x to double
  %yd = fpext float %y to double
  %zd = fpext float %z to double
  %product = fmul double %xd, %yd
  %sum = fadd double %product, %zd
  %result = fptrunc double %sum to float
  ret float %result
}
"""
