; Source of the code objects in this folder, which README.md says how to make.
target triple = "amdgcn-amd-amdhsa"

@tile = internal addrspace(3) global [256 x float] poison, align 16

define protected amdgpu_kernel void @scale_add(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %y, float %factor, i32 %count) #0 !dbg !5 !reqd_work_group_size !9 {
  %lane = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !10
  %group = call i32 @llvm.amdgcn.workgroup.id.x(), !dbg !10
  %base = mul i32 %group, 256, !dbg !10
  %index = add i32 %base, %lane, !dbg !10
  %inside = icmp ult i32 %index, %count, !dbg !11
  br i1 %inside, label %body, label %done, !dbg !11
body:
  %offset = zext i32 %index to i64, !dbg !12
  %from = getelementptr float, ptr addrspace(1) %x, i64 %offset, !dbg !12
  %to = getelementptr float, ptr addrspace(1) %y, i64 %offset, !dbg !12
  %a = load float, ptr addrspace(1) %from, align 4, !dbg !12
  %b = load float, ptr addrspace(1) %to, align 4, !dbg !12
  %c = fmul float %a, %factor, !dbg !13
  %d = fadd float %b, %c, !dbg !13
  store float %d, ptr addrspace(1) %to, align 4, !dbg !14
  br label %done, !dbg !14
done:
  ret void, !dbg !15
}

define protected amdgpu_kernel void @reverse(ptr addrspace(1) %data) #1 !dbg !6 {
  %lane = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !16
  %slot = getelementptr float, ptr addrspace(3) @tile, i32 %lane, !dbg !16
  %place = getelementptr float, ptr addrspace(1) %data, i32 %lane, !dbg !16
  %value = load float, ptr addrspace(1) %place, align 4, !dbg !16
  store float %value, ptr addrspace(3) %slot, align 4, !dbg !17
  fence syncscope("workgroup") release, !dbg !17
  call void @llvm.amdgcn.s.barrier(), !dbg !17
  fence syncscope("workgroup") acquire, !dbg !17
  %mirror = sub i32 255, %lane, !dbg !18
  %other = getelementptr float, ptr addrspace(3) @tile, i32 %mirror, !dbg !18
  %swapped = load float, ptr addrspace(3) %other, align 4, !dbg !18
  store float %swapped, ptr addrspace(1) %place, align 4, !dbg !18
  ret void, !dbg !18
}

declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()

attributes #0 = { "amdgpu-flat-work-group-size"="256,256" "uniform-work-group-size"="true" }
attributes #1 = { "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "kernels.py", directory: "/source")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 7, !"Dwarf Version", i32 5}
!4 = !DISubroutineType(types: !{})
!5 = distinct !DISubprogram(name: "scale_add", file: !1, line: 10, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!6 = distinct !DISubprogram(name: "reverse", file: !1, line: 30, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!9 = !{i32 256, i32 1, i32 1}
!10 = !DILocation(line: 11, column: 5, scope: !5)
!11 = !DILocation(line: 12, column: 8, scope: !5)
!12 = !DILocation(line: 13, column: 9, scope: !5)
!13 = !DILocation(line: 14, column: 13, scope: !5)
!14 = !DILocation(line: 15, column: 9, scope: !5)
!15 = !DILocation(line: 16, column: 1, scope: !5)
!16 = !DILocation(line: 31, column: 5, scope: !6)
!17 = !DILocation(line: 32, column: 5, scope: !6)
!18 = !DILocation(line: 33, column: 5, scope: !6)
