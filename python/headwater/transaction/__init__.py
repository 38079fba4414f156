"""transaction"""
